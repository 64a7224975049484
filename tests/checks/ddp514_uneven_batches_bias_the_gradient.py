"""A rank with smaller batches."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from ddpdoctor.evidence.replicas import Side
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(
            Divergence(
                phase="uneven",
                step=0,
                ranks=(2,),
                numbers={"steps": 40, "last": 2, "audited": 40},
                sides=(Side(ranks=(0, 1, 3), says="8"), Side(ranks=(2,), says="4")),
            )
        ),
        says="at step 0 of 40, the batch has 8 on ranks 0-1,3 and 4 on rank 2 samples; sizes differ in 40 of 40 steps seen",
        ranks=(2,),
    ),
)
HEALTHY = (found(),)

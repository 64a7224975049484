"""A learning rate of one rank's own."""

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
                phase="settings",
                step=5,
                ranks=(2,),
                tensors=("lr",),
                sides=(Side(ranks=(0, 1, 3), says="0.1"), Side(ranks=(2,), says="0.01")),
            )
        ),
        says="at step 5 of 40, lr is 0.1 on ranks 0-1,3 and 0.01 on rank 2",
        ranks=(2,),
    ),
)
HEALTHY = (found(),)

"""A hook that forgets to divide."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(Divergence(phase="scale", step=0, ranks=(0, 1, 2, 3), numbers={"factor": 4})),
        says="from step 0 of 40 on, the reduced gradient is 4 times the mean of the local ones on all 4 ranks",
        ranks=(0, 1, 2, 3),
    ),
)
HEALTHY = (found(),)

"""set_epoch is missing."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(Divergence(phase="same order", step=0, ranks=(0, 1), numbers={"epoch": 1, "before": 0})),
        says="epoch 1 repeats the shuffled order of epoch 0 on all ranks",
        ranks=(0, 1),
    ),
)
HEALTHY = (found(),)

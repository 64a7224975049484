"""Every rank keeps its own accuracy."""

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
                phase="metric",
                step=6,
                ranks=(0, 1),
                sides=(Side(ranks=(0,), says="500 samples"), Side(ranks=(1,), says="500 samples")),
            )
        ),
        says="before step 6, the ranks evaluate different samples (500 samples on rank 0 and 500 samples on rank 1) "
        "and call no collective before training goes on",
        ranks=(0, 1),
    ),
)
HEALTHY = (found(),)

"""No sampler gives the ranks parts of their own."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(
            Divergence(
                phase="same data", step=0, ranks=(0, 1, 2, 3), why="indices", numbers={"epoch": 0, "unique": 1024}
            )
        ),
        says="in epoch 0, all 4 ranks draw the same 1024 samples in the same order",
        ranks=(0, 1, 2, 3),
    ),
    Sick(
        evidence=found(Divergence(phase="same data", step=0, ranks=(0, 1, 2, 3), why="inputs", numbers={"steps": 40})),
        says="the model gets the same input on all 4 ranks, in 40 of 40 steps seen",
        ranks=(0, 1, 2, 3),
    ),
)
HEALTHY = (found(),)

"""A sampler with another seed on one rank."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(
            Divergence(
                phase="overlap",
                step=0,
                ranks=(0, 1),
                numbers={"epoch": 0, "drawn": 104, "unique": 80, "repeats": 24, "missing": 23, "length": 103},
            )
        ),
        says="in epoch 0, 104 draws of 103 samples hit 80: 24 drawn again, 23 never",
        ranks=(0, 1),
    ),
    Sick(
        evidence=found(
            Divergence(
                phase="overlap",
                step=0,
                ranks=(0, 1),
                why="strangers",
                numbers={"epoch": 0, "drawn": 104, "unique": 52, "repeats": 52, "missing": 51, "length": 103},
            )
        ),
        says="in epoch 0, 104 draws of 103 samples hit 52: 52 drawn again, 51 never; "
        "without ranks 0-1 the parts would not overlap",
        ranks=(0, 1),
    ),
)
HEALTHY = (found(),)

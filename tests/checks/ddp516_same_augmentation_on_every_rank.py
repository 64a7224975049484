"""Ranks whose random generators are in step."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


def drawn(why: str, generator: str) -> Divergence:
    return Divergence(
        phase="same draws", step=1, ranks=(0, 1, 2, 3), tensors=(generator,), why=why, numbers={"steps": 38}
    )


SICK = (
    Sick(
        evidence=found(drawn("data", "numpy.random")),
        says="in 38 steps, the generator numpy.random was in the same state on all ranks when they drew from it between two "
        "steps, where data is loaded",
        ranks=(0, 1, 2, 3),
    ),
    Sick(
        evidence=found(drawn("model", "torch")),
        says="in 38 steps, the generator torch was in the same state on all ranks when they drew from it between the forward "
        "and the end of the step",
        ranks=(0, 1, 2, 3),
    ),
)
HEALTHY = (found(),)

"""A handle that nobody waits for, or too late."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(Divergence(phase="read early", step=5, ranks=(0, 1), tensors=("all_reduce",))),
        says="from step 5 of 40 on, ranks 0-1 throw the handle of all_reduce(async_op=True) away without waiting: its tensor "
        "may be read before it is reduced",
        ranks=(0, 1),
    ),
    Sick(
        evidence=found(Divergence(phase="read early", step=5, ranks=(0, 1), tensors=("all_reduce",), why="step")),
        says="from step 5 of 40 on, ranks 0-1 begin a step with the result of all_reduce(async_op=True) before it is there, "
        "and have not waited for it",
        ranks=(0, 1),
    ),
)
HEALTHY = (found(),)

"""A NaN that begins on one rank."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(Divergence(phase="local gradient", step=5, ranks=(1,), tensors=("a", "b"), total=8, why="loss")),
        says="at step 5 of 40, a loss and 2 of 8 local gradients (a, b) on rank 1 only are not finite, before "
        "anything is reduced",
        ranks=(1,),
    ),
    Sick(
        evidence=found(Divergence(phase="local gradient", step=5, ranks=(1,), total=8, why="loss")),
        says="at step 5 of 40, a loss on rank 1 only is not finite, before anything is reduced",
        ranks=(1,),
    ),
    Sick(
        evidence=found(Divergence(phase="local gradient", step=5, ranks=(1,), tensors=("a",), total=8, why="input")),
        says="at step 5 of 40, the model's input and 1 of 8 local gradients (a) on rank 1 only are not finite, before "
        "anything is reduced",
        ranks=(1,),
    ),
)
HEALTHY = (found(),)

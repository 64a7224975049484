"""One rank clips what all have averaged."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(Divergence(phase="changed after", step=5, ranks=(2,), tensors=("a", "b"), total=2)),
        says="at step 5 of 40, rank 2 changed 2 of 2 gradients (a, b) between the reduction and the step",
        ranks=(2,),
    ),
    Sick(
        evidence=found(Divergence(phase="changed after", step=5, ranks=(0, 1), tied=True, tensors=("a",), total=2)),
        says="at step 5 of 40, ranks 0-1 changed 1 of 2 gradients (a) between the reduction and the step; "
        "it cannot be told which side is right",
        ranks=(0, 1),
    ),
)
HEALTHY = (found(),)

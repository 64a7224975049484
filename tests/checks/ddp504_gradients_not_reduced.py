"""Gradients that stay on their rank."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(
            Divergence(
                phase="not reduced", step=3, ranks=(0, 1, 2, 3), tensors=("a", "b", "c", "d"), total=18, why="added"
            )
        ),
        says="from step 3 of 40 on, 4 of 18 parameters (a, b, c, ...) keep their local gradients: "
        "they were added to the model after it was wrapped",
        ranks=(0, 1, 2, 3),
    ),
    Sick(
        evidence=found(Divergence(phase="not reduced", step=0, ranks=(0, 1), tensors=("a",), total=1, why="bypassed")),
        says="from step 0 of 40 on, 1 of 1 parameters (a) keep their local gradients: "
        "the model inside the wrapper was called, so DDP did not see the forward",
        ranks=(0, 1),
    ),
)
HEALTHY = (found(),)

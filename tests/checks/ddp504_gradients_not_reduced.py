"""Gradients that stay on their rank."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergence import GradientsNotReduced, NotReducedCause
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            GradientsNotReduced(
                step=3, ranks=(0, 1, 2, 3), tensors=("a", "b", "c", "d"), total=18, cause=NotReducedCause.ADDED
            )
        ),
        says="from step 3 of 40 on, 4 of 18 parameters (a, b, c, ...) keep their local gradients: "
        "they were added to the model after it was wrapped",
        ranks=(0, 1, 2, 3),
        measured={"step": 3, "tensors": ["a", "b", "c", "d"], "cause": "added"},
    ),
    Sick(
        evidence=found(
            GradientsNotReduced(step=0, ranks=(0, 1), tensors=("a",), total=1, cause=NotReducedCause.BYPASSED)
        ),
        says="from step 0 of 40 on, 1 of 1 parameters (a) keep their local gradients: "
        "the model inside the wrapper was called, so DDP did not see the forward",
        ranks=(0, 1),
        measured={"step": 0, "tensors": ["a"], "cause": "bypassed"},
    ),
)
HEALTHY = (found(),)

"""One rank receives other gradients than its peers."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.results import CollectiveDiffers
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(CollectiveDiffers(step=5, ranks=(2,), tensors=("a",), total=8)),
        says="at step 5 of 40, rank 2 received other results than the other ranks from the all-reduce of 1 of 8 gradients (a)",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a"], "cause": ""},
    ),
    Sick(
        evidence=found(CollectiveDiffers(step=5, ranks=(0, 1), tied=True, tensors=("a",), total=8)),
        says="at step 5 of 40, ranks 0-1 received different results from the all-reduce of 1 of 8 gradients (a); no majority: "
        "either side may be at fault",
        ranks=(0, 1),
        measured={"step": 5, "tensors": ["a"], "cause": ""},
    ),
)
HEALTHY = (found(),)

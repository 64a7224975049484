"""One rank clips what all have averaged; or all but one do."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.gradients import GradientsChanged
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(GradientsChanged(step=5, ranks=(2,), tensors=("a", "b"), total=2)),
        says="at step 5 of 40, rank 2 changed 2 of 2 gradients (a, b) between the all-reduce and the optimizer step",
        ranks=(2,),
        measured={"step": 5, "tensors": ["a", "b"], "cause": ""},
    ),
    Sick(
        evidence=found(GradientsChanged(step=5, ranks=(0, 1), tied=True, tensors=("a",), total=2)),
        says="at step 5 of 40, ranks 0-1 changed 1 of 2 gradients (a) between the all-reduce and the optimizer step; "
        "no majority: either side may be at fault",
        ranks=(0, 1),
        measured={"step": 5, "tensors": ["a"], "cause": ""},
    ),
    Sick(
        evidence=found(GradientsChanged(step=5, ranks=(1,), tensors=("a", "b"), total=2, left=True)),
        says="at step 5 of 40, all ranks except rank 1 changed 2 of 2 gradients (a, b) between the all-reduce and the optimizer "
        "step",
        ranks=(1,),
        measured={"step": 5, "tensors": ["a", "b"], "cause": ""},
    ),
)
HEALTHY = (found(),)

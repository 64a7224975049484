"""A hook that forgets to divide."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.gradients import ReductionScaled
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(ReductionScaled(step=0, ranks=(0, 1, 2, 3), factor=4)),
        says="from step 0 of 40 on, the reduced gradient is 4 times the mean of the local gradients on all 4 ranks",
        ranks=(0, 1, 2, 3),
        measured={"step": 0, "tensors": [], "cause": "", "factor": 4},
    ),
)
HEALTHY = (found(),)

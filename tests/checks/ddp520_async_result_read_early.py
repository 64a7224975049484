"""A handle that nobody waits for, or too late."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.gradients import ReadEarly
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(ReadEarly(step=5, ranks=(0, 1), op="all_reduce", used_by="")),
        says="from step 5 of 40 on, ranks 0-1 discard the handle of all_reduce(async_op=True) without calling wait(): "
        "its tensor may be read before the collective completes",
        ranks=(0, 1),
        measured={"step": 5, "tensors": ["all_reduce"], "cause": ""},
    ),
    Sick(
        evidence=found(ReadEarly(step=5, ranks=(0, 1), op="all_reduce", used_by="step")),
        says="from step 5 of 40 on, ranks 0-1 use the result of all_reduce(async_op=True) in a step before calling wait()",
        ranks=(0, 1),
        measured={"step": 5, "tensors": ["all_reduce"], "cause": "step"},
    ),
)
HEALTHY = (found(),)

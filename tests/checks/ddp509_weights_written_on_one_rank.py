"""Weights reloaded on one rank."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.steps import WeightsWritten, WrittenAt
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(WeightsWritten(step=5, ranks=(0,), tensors=("a",), total=8)),
        says="before step 5 of 40, rank 0 wrote 1 of 8 parameters (a) outside the optimizer",
        ranks=(0,),
        measured={"step": 5, "tensors": ["a"], "cause": "", "shown": ""},
    ),
    Sick(
        evidence=found(
            WeightsWritten(step=5, ranks=(0,), tensors=("a",), total=8, shown=WrittenAt.THE_STEP, after_forward=True)
        ),
        says="in step 5 of 40, rank 0 wrote 1 of 8 parameters (a) between the forward and the optimizer step",
        ranks=(0,),
        measured={"step": 5, "tensors": ["a"], "cause": "between forward and step", "shown": ""},
    ),
    Sick(
        evidence=found(WeightsWritten(step=5, ranks=(0,), tensors=("a",), total=8, shown=WrittenAt.THE_WRITE)),
        says="before step 5 of 40, rank 0 wrote 1 of 8 parameters (a) outside the optimizer",
        ranks=(0,),
        measured={"step": 5, "tensors": ["a"], "cause": "", "shown": "write"},
    ),
)
HEALTHY = (found(),)

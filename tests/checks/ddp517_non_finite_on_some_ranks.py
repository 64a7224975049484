"""A NaN that begins on one rank."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.gradients import LocalNotFinite, NonFiniteCause
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            LocalNotFinite(step=5, ranks=(1,), tensors=("a", "b"), total=8, lost=True, cause=NonFiniteCause.LOSS)
        ),
        says="at step 5 of 40, a loss and 2 of 8 local gradients (a, b) are not finite on rank 1 only, before the all-reduce",
        ranks=(1,),
        measured={"step": 5, "tensors": ["a", "b"], "cause": "loss"},
    ),
    Sick(
        evidence=found(LocalNotFinite(step=5, ranks=(1,), total=8, lost=True, cause=NonFiniteCause.LOSS)),
        says="at step 5 of 40, a loss is not finite on rank 1 only, before the all-reduce",
        ranks=(1,),
        measured={"step": 5, "tensors": [], "cause": "loss"},
    ),
    Sick(
        evidence=found(LocalNotFinite(step=5, ranks=(1,), tensors=("a",), total=8, cause=NonFiniteCause.INPUT)),
        says="at step 5 of 40, the model's input and 1 of 8 local gradients (a) are not finite on rank 1 only, before "
        "the all-reduce",
        ranks=(1,),
        measured={"step": 5, "tensors": ["a"], "cause": "input"},
    ),
    Sick(
        evidence=found(
            LocalNotFinite(
                step=5,
                ranks=(1,),
                tensors=("a",),
                total=8,
                lost=True,
                cause=NonFiniteCause.WEIGHTS,
                weights=("b",),
                weights_total=9,
            )
        ),
        says="at step 5 of 40, a loss and 1 of 8 local gradients (a) are not finite on rank 1 only, before the all-reduce; "
        "before the forward 1 of 9 parameters (b) were not finite on rank 1",
        ranks=(1,),
        measured={"step": 5, "tensors": ["a"], "cause": "weights"},
    ),
    Sick(
        evidence=found(
            LocalNotFinite(
                step=5,
                ranks=(1,),
                tensors=("a",),
                total=2,
                lost=True,
                cause=NonFiniteCause.INPUT,
                weights=("a", "frozen"),
                weights_total=6,
            )
        ),
        says="at step 5 of 40, the model's input, a loss and 1 of 2 local gradients (a) are not finite on rank 1 only, before "
        "the all-reduce; before the forward 2 of 6 parameters (a, frozen) differed between ranks",
        ranks=(1,),
        measured={"step": 5, "tensors": ["a"], "cause": "input"},
    ),
)
HEALTHY = (found(),)

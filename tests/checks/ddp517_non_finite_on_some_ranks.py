"""A NaN that begins on one rank."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergence import LocalNotFinite, NonFiniteCause
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(LocalNotFinite(step=5, ranks=(1,), tensors=("a", "b"), total=8, cause=NonFiniteCause.LOSS)),
        says="at step 5 of 40, a loss and 2 of 8 local gradients (a, b) are not finite on rank 1 only, before the all-reduce",
        ranks=(1,),
        measured={"step": 5, "tensors": ["a", "b"], "cause": "loss"},
    ),
    Sick(
        evidence=found(LocalNotFinite(step=5, ranks=(1,), total=8, cause=NonFiniteCause.LOSS)),
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
            LocalNotFinite(step=5, ranks=(1,), tensors=("a",), total=8, cause=NonFiniteCause.WEIGHTS, weights=("b",))
        ),
        says="at step 5 of 40, 1 of 8 local gradients (a) are not finite on rank 1 only, before the all-reduce; before the "
        "forward 1 of 8 parameters (b) differed between ranks",
        ranks=(1,),
        measured={"step": 5, "tensors": ["a"], "cause": "weights"},
    ),
)
HEALTHY = (found(),)

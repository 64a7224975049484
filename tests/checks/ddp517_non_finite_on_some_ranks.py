"""A NaN that begins on one rank."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.gradients import LocalNotFinite, NonFiniteCause
from tests.checks import Sick
from tests.checks.divergent import found
from tests.rank_ends import from_log

MEGATRON = (
    "[rank3]: Traceback (most recent call last):\n"
    '[rank3]:   File "/home/me/job/train.py", line 40, in train\n'
    "[rank3]:     finish_grad_sync()\n"
    "[rank3]: AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel communication "
    "collective. Device: 3, node: n1\n"
)
MADE_AGAIN = (
    "ERROR:megatron.core.rerun_state_machine:Unexpected result inf on rank 5 at iteration #12 invocation #2 "
    "(message='found Inf in local forward loss calculation')\n"
)
SICK = (
    Sick(
        evidence=from_log(MEGATRON),
        says="rank 3 found NaN in its own grad norm before anything was reduced",
        ranks=(3,),
        where=("rank 3 /home/me/job/train.py:40 train",),
        measured={"value": "NaN", "what": "grad norm"},
    ),
    Sick(
        evidence=from_log(MADE_AGAIN),
        says="rank 5 found inf in its own numbers at iteration 12, before anything was reduced",
        ranks=(5,),
        measured={"value": "inf", "rank": "5", "iteration": "12"},
    ),
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

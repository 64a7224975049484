"""set_epoch is missing."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.data import SameOrder
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.value_chains import CodeLine, EpochCall, ValueChains
from tests.checks import Sick
from tests.checks.divergent import found

MADE = Frame(file="train.py", line=5, function="main")
CALLS = CodeLine(file="train.py", line=4, function="begin", text="part.set_epoch(epoch)")
ASKS = CodeLine(file="train.py", line=3, function="begin", text='hasattr(part, "set_epoch")')
SICK = (
    Sick(
        evidence=found(SameOrder(step=0, ranks=(0, 1), epoch=1, before=0, sampler="")),
        says="epoch 1 repeats the shuffled order of epoch 0 on all ranks",
        ranks=(0, 1),
        measured={"step": 0, "tensors": [], "cause": "", "epoch": 1, "before": 0},
    ),
    Sick(
        evidence=found(
            SameOrder(
                step=0,
                ranks=(0, 1),
                epoch=1,
                before=0,
                sampler="SequentialSampler",
                told=0,
                lines={0: Frame(file="train.py", line=9, function="main")},
                made={0: Frame(file="train.py", line=5, function="main")},
            )
        ),
        says="epoch 1 repeats the shuffled order of epoch 0 on all ranks: their samplers are at epoch 0 both times",
        ranks=(0, 1),
        where=("rank 0 train.py:5 main", "rank 0 train.py:9 main"),
        measured={"step": 0, "tensors": [], "cause": "SequentialSampler", "epoch": 1, "before": 0},
    ),
    Sick(
        evidence=found(
            SameOrder(step=0, ranks=(0,), epoch=1, before=0, sampler="", told=0, made={0: MADE}),
            source=ValueChains(epoch_calls=(EpochCall(at=CALLS, test=ASKS),)),
        ),
        says="epoch 1 repeats the shuffled order of epoch 0 on all ranks: their samplers are at epoch 0 both times",
        ranks=(0,),
        where=("rank 0 train.py:3 begin", "rank 0 train.py:5 main"),
        measured={"step": 0, "tensors": [], "cause": "", "epoch": 1, "before": 0},
    ),
)
HEALTHY = (found(),)

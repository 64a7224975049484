"""Weights reloaded on one rank."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.replicas.divergences.steps import HowWritten, WeightsWritten, WrittenAt
from ddpdoctor.evidence.source import Condition, Request, SourceCode
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
        evidence=found(
            WeightsWritten(step=0, ranks=(3,), tensors=("a",), total=8, shown=WrittenAt.A_LOAD, how=HowWritten.KEPT)
        ),
        says="before step 0 of 40, rank 3 kept 1 of 8 parameters (a), which all other ranks wrote outside the optimizer",
        ranks=(3,),
        measured={"step": 0, "tensors": ["a"], "cause": "loaded", "shown": "load"},
    ),
    Sick(
        evidence=found(
            WeightsWritten(step=60, ranks=(1,), tensors=("decoder.weight",), total=8, how=HowWritten.CHANGED_MODEL),
            steps=100,
        ),
        says="before step 60 of 100, rank 1 added, replaced or removed 1 of 8 parameters (decoder.weight)",
        ranks=(1,),
        measured={"step": 60, "tensors": ["decoder.weight"], "cause": "", "shown": ""},
    ),
    Sick(
        evidence=found(WeightsWritten(step=5, ranks=(0,), tensors=("a",), total=8, shown=WrittenAt.THE_WRITE)),
        says="before step 5 of 40, rank 0 wrote 1 of 8 parameters (a) outside the optimizer",
        ranks=(0,),
        measured={"step": 5, "tensors": ["a"], "cause": "", "shown": "write"},
    ),
)
CLAMPS = Request(
    file="/job/train.py", line=20, function="train", text="p.data.clamp_(-1, 1)", wants="weights",
    conditions=(Condition(line=19, test="rank == 0", branch=0),),
)  # fmt: skip
SEEN_BY_NOBODY, *_, SEEN = (
    replace(one, evidence=replace(one.evidence, job=(*one.evidence.job, SourceCode(requests=(CLAMPS,)))))
    for one in SICK
)
INITIALISES = Request(
    file="/job/train.py", line=30, function="build", text="nn.init.zeros_(self.net.head.weight)", wants="weights"
)  # fmt: skip
INITIALISES_ANOTHER = replace(INITIALISES, line=31, text="nn.init.zeros_(tail.weight)")
AFTER_WRAPPING = found(WeightsWritten(step=0, ranks=(0, 1), tensors=("head.weight",), total=8))
AFTER_WRAPPING = replace(
    AFTER_WRAPPING, job=(*AFTER_WRAPPING.job, SourceCode(requests=(INITIALISES, INITIALISES_ANOTHER)))
)
SICK = (
    *SICK,
    replace(SEEN_BY_NOBODY, where=("rank 0 /job/train.py:20 train",)),
    SEEN,
    Sick(  # each rank draws the weights again, from a seed of its own
        evidence=found(WeightsWritten(step=0, ranks=(0, 1, 2, 3), tensors=("a",), total=8)),
        says="before step 0 of 40, ranks 0-3 each wrote other values into 1 of 8 parameters (a) outside the optimizer",
        ranks=(0, 1, 2, 3),
        measured={"step": 0, "tensors": ["a"], "cause": "", "shown": ""},
    ),
    Sick(
        evidence=AFTER_WRAPPING,
        says="before step 0 of 40, ranks 0-1 wrote 1 of 8 parameters (head.weight) outside the optimizer",
        ranks=(0, 1),
        where=("rank 0 /job/train.py:30 build", "rank 1 /job/train.py:30 build"),
        measured={"step": 0, "tensors": ["head.weight"], "cause": "", "shown": ""},
    ),
)
HEALTHY = (found(),)

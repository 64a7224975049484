"""Rank 0 has evaluated and trains on in evaluation mode; two sides of which none can be told right."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.steps import ModesDiffer
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.replicas import Side
from tests.checks import Sick
from tests.checks.divergent import found

FORWARD = Frame(file="/job/train.py", line=58, function="train")

SICK = (
    Sick(
        evidence=found(
            ModesDiffer(
                step=5,
                ranks=(0,),
                sides=(Side(ranks=(1, 2, 3), says="none"), Side(ranks=(0,), says="the whole model")),
                lines=dict.fromkeys(range(4), FORWARD),
            )
        ),
        says="at step 5 of 40, modules in evaluation mode: none on ranks 1-3 and the whole model on rank 0; dropout and "
        "BatchNorm do something else there",
        ranks=(0,),
        where=tuple(f"rank {rank} /job/train.py:58 train" for rank in range(4)),
        measured={"step": 5, "tensors": [], "cause": ""},
    ),
    Sick(
        evidence=found(
            ModesDiffer(
                step=5,
                ranks=(0, 1, 2, 3),
                sides=(Side(ranks=(0, 1), says="bn"), Side(ranks=(2, 3), says="none")),
                tied=True,
            )
        ),
        says="at step 5 of 40, modules in evaluation mode: bn on ranks 0-1 and none on ranks 2-3; dropout and BatchNorm do "
        "something else there; no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        measured={"step": 5, "tensors": [], "cause": ""},
    ),
)
HEALTHY = (found(),)

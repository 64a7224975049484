"""A rank that skips a step."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.replicas.divergences.steps import SkipCause, StepSkipped
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, SourceCode
from tests.checks import Sick, job
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            StepSkipped(
                step=5,
                ranks=(2,),
                sides=(Side(ranks=(0, 1, 3), says="6"), Side(ranks=(2,), says="5")),
                cause=SkipCause.STEPS,
                seen=5,
            )
        ),
        says="rank 2 skipped step 5 of 40: optimizer steps before the same forward: 6 on ranks 0-1,3 and 5 on rank 2",
        ranks=(2,),
        measured={"step": 5, "tensors": [], "cause": "steps", "seen": 5},
    ),
    Sick(
        evidence=found(
            StepSkipped(
                step=5,
                ranks=(2,),
                sides=(Side(ranks=(0, 1, 3), says="(0, 6)"), Side(ranks=(2,), says="(0, 7)")),
                cause=SkipCause.POSITION,
                seen=5,
            )
        ),
        says="rank 2 skipped step 5 of 40: position in the data before the same forward (epoch, batches drawn): (0, 6) "
        "on ranks 0-1,3 and (0, 7) on rank 2",
        ranks=(2,),
        measured={"step": 5, "tensors": [], "cause": "position", "seen": 5},
    ),
    Sick(
        evidence=found(
            StepSkipped(
                step=5,
                ranks=(2,),
                sides=(Side(ranks=(0, 1, 3), says="6"), Side(ranks=(2,), says="5")),
                cause=SkipCause.FOUND_INF,
                seen=5,
                scale=65536.0,
            )
        ),
        says="rank 2 skipped step 5 of 40: its GradScaler (scale 65536) found non-finite gradients; those of its peers did not",
        ranks=(2,),
        measured={"step": 5, "tensors": [], "cause": "found_inf", "seen": 5, "scale": 65536.0},
    ),
)
SICK = (
    *SICK,
    Sick(
        evidence=found(
            StepSkipped(
                step=32,
                ranks=(2,),
                sides=(Side(ranks=(0, 1, 3), says="63"), Side(ranks=(2,), says="62")),
                cause=SkipCause.STEPS,
                seen=63,
                until=62,
            ),
            steps=100,
        ),
        says="rank 2 skipped one of steps 32 to 62 of 100: optimizer steps before the same forward: 63 on ranks 0-1,3 and 62 "
        "on rank 2",
        ranks=(2,),
        measured={"step": 32, "tensors": [], "cause": "steps", "seen": 63},
    ),
)
SKIPPED = StepSkipped(
    step=5, ranks=(2,), sides=(Side(ranks=(0, 1, 3), says="6"), Side(ranks=(2,), says="5")), cause=SkipCause.STEPS, seen=5,
    lines={rank: Frame(file="/job/train.py", line=51, function="step") for rank in range(4)},
)  # fmt: skip
RETURN = Jump(line=50, word="return", test="self.bad", tested=48)
STEP = CodePlace(file="/job/train.py", line=51, function="step", exits=(RETURN,))
OVERFLOWS = Condition(line=40, test="not overflow", branch=0)
SICK = (
    *SICK,
    *(
        replace(SICK[0], evidence=job(*found(SKIPPED).job, SourceCode(places=(place,))), where=where)
        for place, where in (
            (STEP, ("rank 2 /job/train.py:50 step", *(f"rank {rank} /job/train.py:51 step" for rank in (2, 0, 1, 3)))),
            (
                replace(STEP, exits=(), conditions=(OVERFLOWS,)),
                ("rank 2 /job/train.py:40 step", *(f"rank {rank} /job/train.py:51 step" for rank in (2, 0, 1, 3))),
            ),
            (  # two ways past the step: which one it was is not known
                replace(STEP, conditions=(OVERFLOWS,)),
                tuple(f"rank {rank} /job/train.py:51 step" for rank in (2, 0, 1, 3)),
            ),
        )
    ),
)
HEALTHY = (found(),)

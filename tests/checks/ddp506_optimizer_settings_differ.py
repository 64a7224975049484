"""A learning rate of one rank's own."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import SettingsAt, SettingsDiffer
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.source import CodePlace, RankValue, SourceCode
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            SettingsDiffer(
                step=5,
                ranks=(2,),
                sides=(Side(ranks=(0, 1, 3), says="0.1"), Side(ranks=(2,), says="0.01")),
                names=("lr",),
            )
        ),
        says="at step 5 of 40, lr is 0.1 on ranks 0-1,3 and 0.01 on rank 2",
        ranks=(2,),
        measured={"step": 5, "tensors": ["lr"], "cause": "", "shown": ""},
    ),
)
STEP = Frame(file="/job/train.py", line=61, function="train")
RATES = (
    RankValue(line=40, text="lr * (rank == 2)"),
    RankValue(line=45, text="seed + rank", targets=("lr_seed",), compares=False),
    RankValue(line=50, text="epochs - (rank == 1)"),
)
CODE = SourceCode(places=(CodePlace(file=STEP.file, line=STEP.line, function="train", rank_values=RATES),))
LATER = RankValue(line=70, text="lr + (rank == 2)")
NEARBY = SourceCode(
    places=(
        CodePlace(file=STEP.file, line=80, function="train", rank_values=(LATER, *RATES)),
        CodePlace(file=STEP.file, line=90, function="main", rank_values=(RankValue(line=20, text="lr - (rank == 1)"),)),
    )
)
ITS_OWN = found(
    SettingsDiffer(
        step=5,
        ranks=(2,),
        lines=dict.fromkeys(range(4), STEP),
        sides=(Side(ranks=(0, 1, 3), says="0.1"), Side(ranks=(2,), says="0.01")),
        names=("lr[0]",),
    )
)
SICK = (
    *SICK,
    *(
        # the source shows which learning rate depends on the rank: at the step's line, or at another line of its function
        Sick(
            evidence=replace(ITS_OWN, job=(*ITS_OWN.job, code)),
            says="at step 5 of 40, lr[0] is 0.1 on ranks 0-1,3 and 0.01 on rank 2",
            ranks=(2,),
            where=(
                "rank 2 /job/train.py:40 train",
                "rank 2 /job/train.py:61 train",
                "rank 0 /job/train.py:61 train",
                "rank 1 /job/train.py:61 train",
                "rank 3 /job/train.py:61 train",
            ),
            measured={"step": 5, "tensors": ["lr[0]"], "cause": "", "shown": ""},
        )
        for code in (CODE, NEARBY)
    ),
)
MADE = Frame(file="/job/model.py", line=9, function="configure")
GIVEN = found(
    SettingsDiffer(
        step=5,
        ranks=(2,),
        lines={0: MADE, 2: MADE},
        sides=(Side(ranks=(0, 1, 3), says="0.1"), Side(ranks=(2,), says="0.01")),
        names=("lr[0]",),
        shown=SettingsAt.GIVEN,
    )
)
ARGUMENTS = (
    RankValue(line=30, text="1e-3 * (1 + rank)", targets=("args",), compares=False, keyword="learning_rate"),
    RankValue(line=31, text="seed + rank", targets=("args",), compares=False, keyword="seed"),
)
OF_ANOTHER = RankValue(line=30, text="1 + rank", targets=("args",), compares=False, keyword="num_workers")


def given(*values: RankValue) -> Sick:
    """The setting was given in another function than the one that writes the value, if any is of it."""
    code = SourceCode(places=(CodePlace(file=STEP.file, line=61, function="main", rank_values=values),))
    written = ["rank 2 /job/train.py:30 main"] if values == ARGUMENTS else []
    return Sick(
        evidence=replace(GIVEN, job=(*GIVEN.job, code)),
        says="at step 5 of 40, lr[0] is 0.1 on ranks 0-1,3 and 0.01 on rank 2",
        ranks=(2,),
        where=(*written, "rank 2 /job/model.py:9 configure", "rank 0 /job/model.py:9 configure"),
        measured={"step": 5, "tensors": ["lr[0]"], "cause": "given", "shown": ""},
    )


SICK = (*SICK, given(*ARGUMENTS), given(OF_ANOTHER))
HEALTHY = (found(),)

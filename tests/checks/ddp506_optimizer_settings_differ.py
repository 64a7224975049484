"""A learning rate of one rank's own."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergences.steps import SettingsAt, SettingsDiffer
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.replicas import Side
from ddpdoctor.evidence.source import CodePlace, Condition, RankValue, Request, SourceCode
from tests.checks import Sick, at
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
            where=("rank 2 /job/train.py:40 train", *at("/job/train.py:61 train", 2, 0, 1, 3)),
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


def written(*requests: Request, shown: Iterable[str]) -> Sick:
    """Only the step is known, and the source has these statements that write settings."""
    return Sick(
        evidence=replace(ITS_OWN, job=(*ITS_OWN.job, SourceCode(requests=requests))),
        says="at step 5 of 40, lr[0] is 0.1 on ranks 0-1,3 and 0.01 on rank 2",
        ranks=(2,),
        where=(*shown, *(f"rank {rank} /job/train.py:61 train" for rank in (2, 0, 1, 3))),
        measured={"step": 5, "tensors": ["lr[0]"], "cause": "", "shown": ""},
    )


def write(line: int, text: str, test: str) -> Request:
    conditions = (Condition(line=line - 1, test=test, branch=0),)
    return Request(
        file=STEP.file, line=line, function="decay", text=text, wants="setting", conditions=conditions if test else ()
    )


EVERY_STEP = write(10, "group['lr'] = schedule(step)", "")
ON_A_PLATEAU = write(20, "group['lr'] *= 0.1", "loss > best")
OF_DECAY = write(30, "group['weight_decay'] = 0.0", "rank == 2")
SICK = (
    *SICK,
    written(ON_A_PLATEAU, OF_DECAY, shown=["rank 2 /job/train.py:20 decay"]),
    written(EVERY_STEP, write(40, "g['lr'] = 0.01", "rank == 2"), shown=["rank 2 /job/train.py:40 decay"]),
    written(
        write(50, "g['lr'] = 0.1", "rank != 2"), shown=[f"rank {rank} /job/train.py:50 decay" for rank in (0, 1, 3)]
    ),
    # which of two wrote is not known, nor whether the only one is to blame that is left to another rank
    written(EVERY_STEP, ON_A_PLATEAU, shown=[]),
    written(EVERY_STEP, ON_A_PLATEAU, write(60, "g['lr'] = 0.01", "rank == 1"), shown=[]),
)
HEALTHY = (found(),)

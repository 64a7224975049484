"""A log whose ranks a timeout ended in different collectives names the call under a test of the rank."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, SourceCode
from tests.hangs import C10D, IN_BACKWARD, SCRIPT, stack
from tests.rank_ends import ended

LOOP = Loop(line=55, head="while True")
OF_RANK_0 = Condition(line=63, test="iter_num % eval_interval == 0 and master_process", branch=0)
OF_A_STEP = Condition(line=63, test="iter_num % eval_interval == 0", branch=0)
IN_BARRIER = stack((C10D, 5356, "barrier"), user=(64, "train_step"))
TIMED_OUT = "unbound_buffer.cc:78] Timed out waiting 15000ms for recv operation to complete"
CLOSED = "pair.cc:553] Connection closed by peer [127.0.0.1]:47792"


def code(*conditions: Condition) -> SourceCode:
    """A barrier in a loop, under these conditions."""
    return SourceCode(
        places=(
            CodePlace(file=SCRIPT, line=64, function="train_step", loops=(LOOP,), conditions=conditions),
            CodePlace(file=SCRIPT, line=61, function="train_step", loops=(LOOP,)),
            CodePlace(file=SCRIPT, line=90, function="<module>"),
        )
    )


def lost(frames: tuple[Frame, ...], message: str) -> RankExit:
    return RankExit(exit_code=1, error=RankError(type="RuntimeError", message=message, stack=frames))


def job(rank_0: RankExit, *others: RankExit, source: SourceCode) -> Evidence:
    return ended(rank_0, *others, job=(source,))


def test_the_rank_under_the_test_is_named_where_the_others_timed_out() -> None:
    """A barrier in the evaluation of the master process of nanoGPT, from its log alone."""
    waits = lost(IN_BACKWARD, TIMED_OUT)

    first, *others = diagnose(job(lost(IN_BARRIER, CLOSED), waits, waits, source=code(OF_RANK_0))).findings

    assert (first.code, first.ranks) == ("DDP305", (0,))
    assert first.message == "rank 0 waits in barrier while ranks 1-2 wait in backward"
    assert "inside `if iter_num % eval_interval == 0 and master_process` (train.py:63)" in first.where[0].note
    assert [(one.code, one.explained_by) for one in others] == [("DDP408", "DDP305")]


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(
            job(lost(IN_BARRIER, CLOSED), *[lost(IN_BACKWARD, TIMED_OUT)] * 2, source=code(OF_A_STEP)),
            id="no test of the rank",
        ),
        pytest.param(
            job(lost(IN_BARRIER, CLOSED), *[lost(IN_BACKWARD, CLOSED)] * 2, source=code(OF_RANK_0)),
            id="no timeout: the job was ended in the middle of its work",
        ),
        pytest.param(
            job(lost(IN_BACKWARD, CLOSED), *[lost(IN_BACKWARD, TIMED_OUT)] * 2, source=code(OF_RANK_0)),
            id="one place",
        ),
        pytest.param(
            job(lost(IN_BARRIER, "no space left"), *[lost(IN_BACKWARD, TIMED_OUT)] * 2, source=code(OF_RANK_0)),
            id="an error of its own",
        ),
        pytest.param(
            ended(lost(IN_BARRIER, CLOSED), None, lost(IN_BACKWARD, TIMED_OUT), job=(code(OF_RANK_0),)),
            id="a rank is absent",
        ),
    ],
)
def test_nothing_is_said_of(evidence: Evidence) -> None:
    assert "DDP305" not in {finding.code for finding in diagnose(evidence).findings}

"""Ctrl-C between two tries: what the loop had caught is not what ended the rank; what no loop answers is."""

from __future__ import annotations

from ddpdoctor.analysis.crashes.retry_loops import without_what_was_caught
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, SourceCode

SLEEPS = Frame(file="/job/prep.py", line=11, function="acquire")
CAUGHT = RankError(type="FileExistsError", message="[Errno 17] File exists: 'build.lock'", stack=(SLEEPS,))
INTERRUPTED = RankExit(
    exit_code=-2,
    tail=("step 10", "[rank0]: FileExistsError: [Errno 17] File exists: 'build.lock'"),
    error=RankError(type="KeyboardInterrupt", message="", stack=(SLEEPS,), cause=CAUGHT),
)
HANDLER = Condition(line=10, test="except FileExistsError", branch=0)


def source(*loops: Loop) -> SourceCode:
    return SourceCode(
        places=(CodePlace(file="/job/prep.py", line=11, function="acquire", loops=loops, conditions=(HANDLER,)),)
    )


def test_what_a_loop_caught_before_ctrl_c_is_left_out() -> None:
    left = without_what_was_caught(INTERRUPTED, source(Loop(line=5, head="while True")))
    assert left.error is not None
    assert (left.error.type, left.error.cause) == ("KeyboardInterrupt", None)
    assert left.tail == ("step 10",)


def test_an_error_that_no_loop_answers_stays() -> None:
    """A handler that closes the job down may hang until Ctrl-C: its error ended the rank."""
    assert without_what_was_caught(INTERRUPTED, source()) == INTERRUPTED
    assert without_what_was_caught(INTERRUPTED, None) == INTERRUPTED
    assert without_what_was_caught(INTERRUPTED, source(Loop(line=10, head="while True"))) == INTERRUPTED

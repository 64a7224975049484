"""A crash whose place only the job's own faulthandler tells, on stderr."""

from __future__ import annotations

import signal
from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.ranks.rank_exits import with_users_faulthandler

REPORT = (
    "step 3\nFatal Python error: Segmentation fault\n\n"
    'Current thread 0x00007f1 (most recent call first):\n  File "/job/train.py", line 16 in decode\n'
    '  File "/job/train.py", line 40 in <module>\n\nExtension modules: numpy (total: 1)\nthe peer speaks\n'
)
CRASHED = RankExit(exit_code=-signal.SIGSEGV)
LOST = RankExit(exit_code=1)


def test_the_only_report_is_of_the_only_rank_that_crashed() -> None:
    told = with_users_faulthandler({0: LOST, 1: CRASHED}, REPORT)
    assert told[0] == LOST
    assert told[1].native_stack[0] == Frame(file="/job/train.py", line=16, function="decode")


def test_a_report_that_may_be_of_several_ranks_is_nobodys() -> None:
    both = {0: CRASHED, 1: CRASHED}
    assert with_users_faulthandler(both, REPORT) == both
    assert with_users_faulthandler({0: LOST, 1: CRASHED}, REPORT + REPORT)[1] == CRASHED
    assert with_users_faulthandler({0: LOST, 1: LOST}, REPORT) == {0: LOST, 1: LOST}


def test_what_the_agent_kept_is_not_replaced() -> None:
    kept = replace(CRASHED, native_stack=(Frame(file="/job/other.py", line=1, function="f"),))
    assert with_users_faulthandler({1: kept}, REPORT) == {1: kept}

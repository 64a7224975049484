"""How many functions the watcher calls each time that it looks at a job in which nothing has changed: five times a second."""

import os
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.host.oom import MemoryWatch
from ddpdoctor.ranks.agent_files import find_ranks

RANKS = 4
MOST_CALLS = 40  # for each rank, of Python and of C


def calls(act: Callable[[], object]) -> Counter[str]:
    """How often each function is called while `act` runs."""
    called: Counter[str] = Counter()

    def count(frame: object, event: str, argument: object) -> None:
        if event == "call":
            called[frame.f_code.co_name] += 1  # type: ignore[attr-defined]
        elif event == "c_call":
            called[argument.__name__] += 1  # type: ignore[attr-defined]

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        act()
    finally:
        sys.setprofile(before)
    return called


def test_a_look_at_the_ranks_calls_few_functions_for_each(tmp_path: Path) -> None:
    for number in range(RANKS):
        CallRing(str(tmp_path / f"{number + 1}.ring"), rank=number, world_size=RANKS, restart=0)
        (tmp_path / f"{number + 1}.texts").touch()

    called = calls(lambda: find_ranks(tmp_path))

    assert called.total() <= MOST_CALLS * RANKS, called


def test_the_control_group_of_a_rank_is_not_looked_for_again_at_each_look() -> None:
    watch = MemoryWatch()
    watch.observe([os.getpid()])

    called = calls(lambda: watch.observe([os.getpid()]))

    assert called["open"] == called["read_text"] == 0, called

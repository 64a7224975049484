"""The threads that are named beside a rank that waits for one of them."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.stacks import Thread
from tests.hangs import STDLIB, hang, rank, stack

HOLDS = Thread(name="Thread-1 (heartbeat)", frames=stack(user=(5, "heartbeat")), os_id=101)
OF_A_LIBRARY = Thread(name="tqdm", frames=stack((f"{STDLIB}/threading.py", 327, "wait"))[:1], os_id=102)
OWN_LINE = stack(user=(88, "validate"))


def details(*, system_call: str) -> tuple[str, ...]:
    waits = rank(OWN_LINE, system_call=system_call, others=(HOLDS, OF_A_LIBRARY))
    return diagnose(hang(rank(), waits)).findings[0].details


def test_a_rank_that_waits_for_a_lock_is_shown_with_its_other_threads() -> None:
    assert details(system_call="futex") == (
        "another thread of rank 1 (Thread-1 (heartbeat)) is at train.py:5 in heartbeat",
    )


def test_a_rank_that_sleeps_is_shown_without_them() -> None:
    assert details(system_call="clock_nanosleep") == ()

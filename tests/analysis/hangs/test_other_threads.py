"""The threads and processes that are named beside a rank that waits for one of them."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import ChildProcess
from ddpdoctor.evidence.stacks import Thread
from tests.hangs import SCRIPT, STDLIB, hang, rank, stack

HOLDS = Thread(name="Thread-1 (heartbeat)", frames=stack(user=(5, "heartbeat")), os_id=101)
OF_A_LIBRARY = Thread(name="tqdm", frames=stack((f"{STDLIB}/threading.py", 327, "wait"))[:1], os_id=102)
OWN_LINE = stack(user=(88, "validate"))
QUEUE = stack((f"{STDLIB}/multiprocessing/queues.py", 103, "get"), user=(88, "validate"))
ENDED = ChildProcess(pid=122, kind="subprocess", state="Z", command="[python]")


def details(*, system_call: str) -> tuple[str, ...]:
    waits = rank(OWN_LINE, system_call=system_call, others=(HOLDS, OF_A_LIBRARY))
    return diagnose(hang(rank(), waits)).findings[0].details


def test_a_rank_that_waits_for_a_lock_is_shown_with_its_other_threads() -> None:
    assert details(system_call="futex") == (
        "another thread of rank 1 (Thread-1 (heartbeat)) is at train.py:5 in heartbeat",
    )


def test_a_line_in_another_file_is_shown_with_its_callers() -> None:
    """The line of a helper, as of a decorator that tries again, does not say what the program asked for."""
    helper = Frame(file="/home/me/job/netio.py", line=24, function="read")
    asleep = rank((helper, *OWN_LINE), system_call="clock_nanosleep")
    (found,) = diagnose(hang(rank(), asleep)).findings
    assert found.details == ("rank 1 is in read, called in validate (train.py:88)",)


def test_another_thread_is_shown_with_its_callers() -> None:
    pool = Thread(
        name="pool", frames=(Frame(file=SCRIPT, line=18, function="put"), *stack(user=(45, "regrow"))), os_id=101
    )
    waits = rank(OWN_LINE, system_call="futex", others=(pool,))
    (found,) = diagnose(hang(rank(), waits)).findings
    assert found.details == (
        "another thread of rank 1 (pool) is at train.py:18 in put, called in regrow (train.py:45)",
    )


def test_a_rank_that_sleeps_is_shown_without_them() -> None:
    assert details(system_call="clock_nanosleep") == ()


def test_a_rank_that_waits_for_what_another_process_gives_is_shown_with_its_processes_that_have_ended() -> None:
    (found,) = diagnose(hang(rank(), rank(QUEUE, children=(ENDED,)))).findings
    assert found.details == ("process 122, which rank 1 started, has ended",)
    (found,) = diagnose(hang(rank(), rank(QUEUE, children=()))).findings
    assert found.details == ()
    (found,) = diagnose(hang(rank(), rank(OWN_LINE, system_call="clock_nanosleep", children=(ENDED,)))).findings
    assert found.details == ()

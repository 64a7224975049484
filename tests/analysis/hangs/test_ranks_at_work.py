"""A rank that waits for what its threads, its workers or a connection bring is at work while they are, and hangs otherwise."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import ChildProcess
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.model import Severity
from tests.hangs import STDLIB, hang, rank, stack

LOCK = stack((f"{STDLIB}/threading.py", 271, "__enter__"), user=(70, "save"))
FUTURE = stack((f"{STDLIB}/threading.py", 320, "wait"), (f"{STDLIB}/concurrent/futures/_base.py", 451, "result"))
JOIN = stack((f"{STDLIB}/threading.py", 1119, "_wait_for_tstate_lock"), (f"{STDLIB}/threading.py", 1112, "join"))
PROCESS = stack((f"{STDLIB}/multiprocessing/process.py", 149, "join"))
DOWNLOAD = stack((f"{STDLIB}/socket.py", 706, "readinto"), (f"{STDLIB}/urllib/request.py", 268, "urlretrieve"))
EVENT_LOOP = stack((f"{STDLIB}/selectors.py", 468, "select"), (f"{STDLIB}/asyncio/base_events.py", 1884, "_run_once"))
SLEEP = stack(user=(88, "validate"))
EVALUATES = Thread(name="Thread-1", frames=(Frame(file="/job/train.py", line=30, function="evaluate"),), os_id=101)
WORKER = {"pid": 120, "kind": "data loader worker", "state": "S", "command": "python -c from multiprocessing.spawn"}


def severity(*, frames: tuple[Frame, ...], **said: object) -> Severity:
    (found,) = diagnose(hang(rank(), rank(frames, **said), seconds=None)).findings  # type: ignore[arg-type]
    assert (found.code, found.ranks) == ("DDP307", (1,))
    return found.severity


@pytest.mark.parametrize("frames", [LOCK, FUTURE, JOIN])
def test_a_thread_that_works_for_the_main_one(frames: tuple[Frame, ...]) -> None:
    assert severity(frames=frames, others=(EVALUATES,), others_work=True) is Severity.INFO
    assert severity(frames=frames, others=(EVALUATES,)) is Severity.FAIL


def test_a_thread_beside_a_main_one_that_does_not_wait_for_any() -> None:
    assert severity(frames=SLEEP, system_call="clock_nanosleep", others_work=True) is Severity.FAIL
    assert severity(frames=DOWNLOAD, system_call="recvfrom", others_work=True) is Severity.FAIL


@pytest.mark.parametrize("frames", [FUTURE, PROCESS])
def test_a_worker_process_that_the_rank_waits_for(frames: tuple[Frame, ...]) -> None:
    busy, idle = (ChildProcess(**WORKER, cpu_share=share) for share in (0.4, 0.0))  # type: ignore[arg-type]
    assert severity(frames=frames, children=(busy,)) is Severity.INFO
    assert severity(frames=frames, children=(idle,)) is Severity.FAIL


@pytest.mark.parametrize(("frames", "call"), [(DOWNLOAD, "recvfrom"), (EVENT_LOOP, "epoll_wait")])
def test_a_connection_or_an_event_loop_that_brings_something(frames: tuple[Frame, ...], call: str) -> None:
    assert severity(frames=frames, system_call=call, wakes=4) is Severity.INFO
    assert severity(frames=frames, system_call=call, wakes=0) is Severity.FAIL
    assert severity(frames=frames, system_call=call, wakes=None) is Severity.FAIL


@pytest.mark.parametrize("call", ["recvfrom", "poll", "restart_syscall", None])
def test_the_bytes_of_a_connection_decide_where_they_were_counted(call: str | None) -> None:
    assert severity(frames=DOWNLOAD, system_call=call, wakes=0, connection_bytes=200) is Severity.INFO
    assert severity(frames=DOWNLOAD, system_call=call, wakes=4, connection_bytes=0) is Severity.FAIL


def test_an_event_loop_in_which_functions_only_sleep_and_look_for_something() -> None:
    said = {"frames": EVENT_LOOP, "system_call": "epoll_wait", "wakes": 9}
    assert severity(**said, connection_bytes=0) is Severity.FAIL  # type: ignore[arg-type]
    assert severity(**said, connection_bytes=300) is Severity.INFO  # type: ignore[arg-type]
    assert severity(**said, connection_bytes=0, io_bytes=1 << 20) is Severity.INFO  # type: ignore[arg-type]
    program = ChildProcess(pid=120, kind="subprocess", state="R", command="zstd", cpu_share=0.9)
    assert severity(**said, connection_bytes=0, children=(program,)) is Severity.INFO  # type: ignore[arg-type]


def test_a_rank_that_accepts_connections_gets_nothing() -> None:
    assert severity(frames=stack(user=(70, "serve")), system_call="accept4", wakes=4) is Severity.FAIL

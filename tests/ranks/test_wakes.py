"""How often the main thread of a process has woken from its sleep."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ddpdoctor.host.processes import sleeps
from ddpdoctor.ranks.target import Target
from ddpdoctor.ranks.wakes import wakes_within
from tests.waiting import within

ONE_WAIT = "import threading; print(flush=True); lock = threading.Lock(); lock.acquire(); lock.acquire()"
WITH_A_TIMER = (
    "import signal, threading; signal.signal(signal.{signal}, lambda *_: None); signal.setitimer(signal.{timer}, 0.05, 0.05); "
    f"{ONE_WAIT}"
)
STATUS = Path("/proc/self/status").read_text(encoding="utf-8")
POLLS = "import time; print(flush=True)\nwhile True: time.sleep(0.01)"


@contextmanager
def running(program: str) -> Iterator[int]:
    """The process id of a Python that has begun to wait."""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


@pytest.mark.timeout(60)
def test_a_thread_that_stays_in_one_wait_never_wakes() -> None:
    with running(ONE_WAIT) as pid:
        assert within(lambda: wakes_within([Target(rank=0, pid=pid)], 0.2) == {pid: 0})


@pytest.mark.timeout(60)
@pytest.mark.skipif("SigCgt" not in STATUS, reason="the kernel does not show which signals a process handles")
@pytest.mark.parametrize(
    ("name", "timer"), [("SIGALRM", "ITIMER_REAL"), ("SIGVTALRM", "ITIMER_VIRTUAL"), ("SIGPROF", "ITIMER_PROF")]
)
def test_what_a_timer_wakes_is_not_counted(name: str, timer: str) -> None:
    with running(WITH_A_TIMER.replace("{signal}", name).replace("{timer}", timer)) as pid:
        assert within(lambda: sleeps(pid) is not None)
        assert wakes_within([Target(rank=0, pid=pid)], 0.2) == {}


@pytest.mark.timeout(60)
def test_one_that_sleeps_again_and_again_has_woken() -> None:
    with running(POLLS) as pid:
        assert within(lambda: sleeps(pid) is not None)
        assert wakes_within([Target(rank=0, pid=pid)], 30.0).get(pid, 1) > 0


def test_a_process_that_is_gone_is_left_out() -> None:
    with running(POLLS) as pid:
        pass
    assert wakes_within([Target(rank=0, pid=pid)], 0.0) == {}

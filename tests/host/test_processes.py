"""What of a process the kernel tells everybody, and what only its user."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.evidence.process import Counterpart
from ddpdoctor.host import processes
from ddpdoctor.host.system_calls import system_call
from tests.waiting import within

ANOTHER = 65534
NO_PROCESS = 1 << 30
pytestmark = [pytest.mark.timeout(60), pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


def can_be_read(file: str) -> bool:
    """Whether the file can be read here, be it empty."""
    try:
        Path(file).read_bytes()
    except OSError:
        return False
    return True


@pytest.fixture
def zombie() -> Iterator[Callable[[int], int]]:
    """Makes a zombie that ended with this exit code, or with signal N for -N."""
    made: list[int] = []

    def ended(code: int) -> int:
        pid = os.fork()
        if not pid:
            if code < 0:
                os.kill(os.getpid(), -code)
            os._exit(code)
        made.append(pid)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        return pid

    yield ended
    for pid in made:
        os.waitpid(pid, 0)


def told_to_another_user(ask: Callable[[], object]) -> str:
    """The representation of what `ask` returns in a process of another user."""
    if os.geteuid() != 0:
        pytest.skip(f"only root can become user {ANOTHER}")
    reader, writer = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setresgid(ANOTHER, ANOTHER, ANOTHER)
            os.setresuid(ANOTHER, ANOTHER, ANOTHER)
            os.write(writer, repr(ask()).encode())
        except OSError as error:
            os.write(writer, f"cannot become: {error}".encode())
        finally:
            os._exit(0)
    os.close(writer)
    said = os.read(reader, 1000).decode()
    os.close(reader)
    os.waitpid(pid, 0)
    if said.startswith("cannot become"):
        pytest.skip(said)
    return said


@pytest.mark.parametrize("code", [0, 3, -signal.SIGKILL])
def test_the_exit_code_of_a_zombie_is_told_to_its_user(zombie: Callable[[int], int], code: int) -> None:
    assert processes.exit_code(zombie(code)) == code


@pytest.mark.parametrize("code", [0, 3])
def test_an_exit_code_that_the_kernel_keeps_to_itself_is_not_taken_for_0(
    zombie: Callable[[int], int], code: int
) -> None:
    pid = zombie(code)
    assert told_to_another_user(lambda: processes.exit_code(pid)) == "None"


@pytest.mark.skipif(not can_be_read("/proc/locks"), reason="/proc/locks cannot be read here")
def test_whoever_holds_a_file_lock_or_the_other_end_of_a_pipe_is_known(tmp_path: Path) -> None:
    waits = "import fcntl, sys; file = open(sys.argv[1], 'a'); print('begins', flush=True); "
    lock = tmp_path / "x.lock"
    with (
        lock.open("a") as held,
        started(
            f"{waits} fcntl.flock(file, fcntl.LOCK_EX)", str(lock), prepare=lambda: fcntl.flock(held, fcntl.LOCK_EX)
        ) as for_lock,
        started("import sys; print('begins', flush=True); sys.stdin.buffer.read(1)") as for_nothing,
        started("import os; print('begins', flush=True); read, write = os.pipe(); os.read(read, 1)") as for_itself,
    ):
        assert [one.pid for one in counterparts(for_lock, "flock")] == [os.getpid()]
        assert counterparts(for_nothing, "read")[0].pid == os.getpid()
        assert counterparts(for_itself, "read") == ()


@pytest.mark.skipif(not can_be_read("/proc/self/syscall"), reason="/proc/PID/syscall cannot be read here")
def test_the_path_that_a_process_waits_to_open_is_known(tmp_path: Path) -> None:
    pipe = tmp_path / "nobody writes"
    os.mkfifo(pipe)
    with started("import sys; print('begins', flush=True); open(sys.argv[1])", str(pipe)) as pid:
        assert within(lambda: system_call(pid) == ("openat", str(pipe)))


@contextlib.contextmanager
def started(program: str, *arguments: str, prepare: Callable[[], None] = lambda: None) -> Iterator[int]:
    """A program that has begun, until the end of the block."""
    prepare()
    with subprocess.Popen(
        [sys.executable, "-c", program, *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield process.pid
        finally:
            process.kill()


def counterparts(pid: int, call: str) -> tuple[Counterpart, ...]:
    """What is known of them once the process sits in this system call; skips where the kernel does not show that."""
    if not can_be_read(f"/proc/{pid}/syscall"):
        pytest.skip(f"/proc/{pid}/syscall cannot be read here")
    end = time.monotonic() + 30
    while (before := processes.sample(pid)) is None or before.system_call != call:
        assert time.monotonic() < end, before
        time.sleep(0.05)
    return processes.state_between(pid, before, before).counterparts


def looked(
    ticks: int, *, reaped: int = 0, began: int = 0, children: Mapping[int, processes.Sample] = {}
) -> processes.Sample:
    """One look; the seconds and ticks are those of the looks in `used`."""
    return processes.Sample(
        at=0.0,
        began=began,
        seen=10,
        state="S",
        ticks=ticks,
        io_bytes=0,
        system_call=None,
        waits_on=None,
        kernel_function=None,
        children=children,
        reaped=reaped,
    )


@pytest.mark.parametrize(
    ("then", "now", "share"),
    [
        pytest.param(looked(1), looked(1, reaped=50), 0.5, id="two compilers began and ended"),
        pytest.param(
            looked(1, children={8: looked(900)}), looked(1, reaped=950), 0.5, id="one that ended had worked before"
        ),
        pytest.param(looked(1, reaped=700), looked(1, reaped=700), 0.0, id="all had ended before the first look"),
        pytest.param(
            looked(1, children={8: looked(900)}), looked(1, reaped=900), 0.0, id="one ended without more work"
        ),
    ],
)
def test_programs_that_end_between_two_looks_count_for_the_one_that_waits_for_them(
    then: processes.Sample, now: processes.Sample, share: float
) -> None:
    before = looked(0, children={7: then})
    after = replace(looked(0, children={7: now}), at=100 / processes.CLOCK_TICKS)
    (child,) = processes.state_between(NO_PROCESS, before, after).children
    assert child.cpu_share == pytest.approx(share)


def test_what_a_process_uses_includes_those_below_it() -> None:
    """A compiler's driver sleeps while the compiler works; one that only waits uses nothing."""
    spins = subprocess.Popen(["sh", "-c", f"'{sys.executable}' -c 'while True: pass'; true"], start_new_session=True)
    waits = subprocess.Popen(["sh", "-c", "sleep 60; true"], start_new_session=True)
    try:
        before = processes.sample(os.getpid())
        until = time.monotonic() + 20
        used: dict[int, float] = {}
        while time.monotonic() < until and used.get(spins.pid, 0.0) < 0.05:
            time.sleep(1.0)
            after = processes.sample(os.getpid())
            assert before is not None
            assert after is not None
            children = processes.state_between(os.getpid(), before, after).children
            used = {child.pid: child.cpu_share or 0.0 for child in children}
            before = after
        assert used[spins.pid] >= 0.05
        assert used[waits.pid] < 0.05
    finally:
        for child in (spins, waits):
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()


def looked_at(
    *, ticks: int, began: int, seen: int, children: Mapping[int, processes.Sample] | None = None
) -> processes.Sample:
    """A look at a process that began, and was seen, so many ticks after the host was started."""
    return processes.Sample(
        at=seen / processes.CLOCK_TICKS,
        began=began,
        seen=seen,
        state="S",
        ticks=ticks,
        io_bytes=0,
        system_call=None,
        waits_on=None,
        kernel_function=None,
        children=children or {},
    )


def share_of_a_driver(*, first: Mapping[int, processes.Sample], then: Mapping[int, processes.Sample]) -> float | None:
    """What a driver used that has these processes below it at the two looks, which are a second apart."""
    second = processes.CLOCK_TICKS
    before, after = (
        looked_at(
            ticks=0,
            began=1,
            seen=seen,
            children={NO_PROCESS: looked_at(ticks=0, began=2, seen=seen, children=children)},
        )
        for seen, children in ((1000 * second, first), (1001 * second, then))
    )
    (driver,) = processes.state_between(os.getpid(), before, after).children
    return driver.cpu_share


def test_what_a_process_used_before_the_first_look_is_not_counted() -> None:
    """A process that was adopted since the first look may have worked for hours."""
    second = processes.CLOCK_TICKS
    adopted = looked_at(ticks=25 * second, began=500 * second, seen=1001 * second)
    begun = looked_at(ticks=second // 2, began=1000 * second + 2, seen=1001 * second)
    known = looked_at(ticks=24 * second, began=500 * second, seen=1000 * second)
    assert share_of_a_driver(first={}, then={NO_PROCESS + 1: adopted}) == 0.0
    assert share_of_a_driver(first={}, then={NO_PROCESS + 1: begun}) == 0.5
    assert share_of_a_driver(first={NO_PROCESS + 1: known}, then={NO_PROCESS + 1: adopted}) == 1.0


def test_a_number_that_was_given_to_another_process_is_no_earlier_look_at_it() -> None:
    second = processes.CLOCK_TICKS
    gone = looked_at(ticks=24 * second, began=500 * second, seen=1000 * second)
    begun = looked_at(ticks=second // 2, began=1000 * second + 2, seen=1001 * second)
    assert share_of_a_driver(first={NO_PROCESS + 1: gone}, then={NO_PROCESS + 1: begun}) == 0.5

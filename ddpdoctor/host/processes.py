"""What /proc tells of a process: what it sits in, whether it moves, and which processes it started."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
import signal
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from ddpdoctor.evidence.process import ChildKind, ChildProcess, Counterpart, ProcessState
from ddpdoctor.host.system_calls import counterparts, read_or_nothing, system_call
from ddpdoctor.launch.process_files import arguments_of, command_of, environment_of

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
MOST_CHILDREN = 64
MOST_COUNTERPARTS = 4
CAP_SYS_PTRACE = 19  # man 7 capabilities
TIMER_SIGNALS = (signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A process and its children at one moment.

    The system call must be read before py-spy interrupts it: a sleep that goes on afterwards shows as another call.
    """

    at: float
    """When, in seconds of the monotonic clock."""
    began: int
    """When the process began, in ticks since the host was started."""
    seen: int
    """When it was read, in the same ticks."""
    state: str
    """Its state, as the letter of /proc/PID/stat."""
    ticks: int
    """The processor time that it has used since it began, in ticks."""
    io_bytes: int | None
    """What it has read and written since it began; None where that cannot be read."""
    system_call: str | None
    """The system call that it is in; None where it runs or the kernel does not tell."""
    waits_on: str | None
    """The file or socket of that call."""
    kernel_function: str | None
    """The function of the kernel that it waits in."""
    children: Mapping[int, Sample]
    """The same of its children, by process."""
    reaped: int = 0
    """The ticks of processes below it that have ended."""


def sample(pid: int, thread: int | None = None) -> Sample | None:
    """A look at `pid` and what its `thread` sits in, the main one where none is given; None where it is gone."""
    fields, waiting = _stat(pid), thread or pid
    if fields is None:
        return None
    children = {}
    for child in sorted(_children(pid))[:MOST_CHILDREN]:
        found = sample(child)
        if found is not None:
            children[child] = found
    call, waits_on = system_call(waiting)
    return Sample(
        system_call=call,
        waits_on=waits_on,
        kernel_function=read_or_nothing(Path(f"/proc/{waiting}/wchan")).strip("0") or None,
        at=time.monotonic(),
        began=int(fields[19]),
        seen=int(time.clock_gettime(time.CLOCK_BOOTTIME) * CLOCK_TICKS),
        state=(_stat(waiting) or fields)[0],
        ticks=int(fields[11]) + int(fields[12]),
        io_bytes=_io_bytes(pid),
        children=children,
        reaped=int(fields[13]) + int(fields[14]),
    )


def state_between(
    pid: int,
    before: Sample,
    after: Sample,
    *,
    wakes: int | None = None,
    sockets: Collection[int] = (),
    connection_bytes: int | None = None,
) -> ProcessState:
    """What a process did between two looks, with what it sits in now, how often it woke, and what its connections moved."""
    return ProcessState(
        pid=pid,
        state=after.state,
        seconds=after.at - before.at,
        cpu_share=_share(before, after),
        io_bytes=None if before.io_bytes is None or after.io_bytes is None else after.io_bytes - before.io_bytes,
        system_call=before.system_call,
        waits_on=before.waits_on,
        counterparts=tuple(_counterparts(pid, before.system_call)),
        kernel_function=before.kernel_function,
        children=tuple(_children_between(before, after)),
        command=command(pid),
        started_at=started_at(pid),
        wakes=wakes,
        sockets=tuple(sorted(sockets)),
        connection_bytes=connection_bytes,
    )


def sleeps(thread: int) -> int | None:
    """How often a thread has gone to sleep since it began; None where it does not sleep now, or is gone.

    The number of a process is that of its main thread.

    py-spy interrupts a sleep, which counts as another one: only two counts without a look in between can be compared.
    """
    fields = _stat(thread)
    if fields is None or fields[0] != "S":
        return None
    status = read_or_nothing(Path(f"/proc/{thread}/status"))
    found = re.search(r"^voluntary_ctxt_switches:\s*(\d+)$", status, re.MULTILINE)
    return int(found[1]) if found else None


def has_thread(pid: int, thread: int) -> bool:
    """Whether the process has a thread of this number."""
    return Path(f"/proc/{pid}/task/{thread}").exists()


def may_be_woken_by_a_timer(pid: int) -> bool:
    """Whether the process handles the signal of a timer (`signal.setitimer`, `signal.alarm`, a sampling profiler).

    Such a signal interrupts a sleep, which then goes on: that counts as another one without any progress. No file of /proc
    shows whether the timer runs.
    """
    caught = re.search(r"^SigCgt:\s*([0-9a-f]+)$", read_or_nothing(Path(f"/proc/{pid}/status")), re.MULTILINE)
    return caught is not None and any(int(caught[1], 16) >> (number - 1) & 1 for number in TIMER_SIGNALS)


def words(pid: int) -> list[str]:
    """The words of the command line; none of a kernel thread, a zombie, or a process that is gone."""
    try:
        return arguments_of(pid)
    except OSError:
        return []


def command(pid: int) -> str:
    """The command line, or the name in brackets for a kernel thread or a zombie."""
    try:
        return command_of(pid) or f"[{psutil.Process(pid).name()}]"
    except (psutil.Error, OSError):
        return "[]"


def started_at(pid: int) -> float | None:
    """When the process began, in seconds since the epoch."""
    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return None


def is_alive(pid: int) -> bool:
    """Whether the process still runs: a zombie does not."""
    try:
        return psutil.Process(pid).status() not in {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}
    except psutil.Error:
        return False


def exit_code(pid: int) -> int | None:
    """The exit code of a zombie, or -N for signal N; None of a process that runs, is gone, or may not be inspected."""
    fields = _stat(pid)
    if fields is None or fields[0] not in "ZX" or not fields[-1].isdigit():
        return None
    code = os.waitstatus_to_exitcode(int(fields[-1]))  # the last field of /proc/PID/stat: `man 5 proc`
    return None if code == 0 and not _may_inspect(pid) else code  # 0 is also what the kernel tells everybody else


def user(pid: int) -> int | None:
    """The effective user of a process; None where there is no such process."""
    try:
        return int(psutil.Process(pid).uids().effective)
    except psutil.Error:
        return None


def has_mapped(pid: int, addresses: Collection[int]) -> bool | None:
    """Whether one of these addresses lies in the memory of a process; None where its map cannot be read."""
    bounds = [line.partition(" ")[0].partition("-") for line in read_or_nothing(Path(f"/proc/{pid}/maps")).splitlines()]
    regions = [(int(begin, 16), int(end, 16)) for begin, _, end in bounds]
    return any(begin <= address < end for begin, end in regions for address in addresses) if regions else None


def environ(pid: int) -> dict[str, str] | None:
    """The environment that the process was started with, or None where it may not be read."""
    try:
        return environment_of(pid)
    except OSError:
        return None


def all_pids() -> Iterator[int]:
    """Every process that /proc shows."""
    yield from psutil.pids()


def parents() -> dict[int, int]:
    """By process, the one that started it."""
    found = {}
    for pid in all_pids():
        with contextlib.suppress(psutil.Error):
            found[pid] = psutil.Process(pid).ppid()
    return found


def _may_inspect(pid: int) -> bool:
    """Whether the kernel tells us of a zombie what it tells only its user, and who may trace all processes."""
    capabilities = re.search(r"^CapEff:\s*([0-9a-f]+)$", read_or_nothing(Path("/proc/self/status")), re.MULTILINE)
    if capabilities and int(capabilities[1], 16) >> CAP_SYS_PTRACE & 1:
        return True
    try:
        return {*psutil.Process(pid).uids()} == {os.geteuid()}
    except psutil.Error:
        return False


def _share(before: Sample | None, after: Sample) -> float | None:
    if before is None or after.at <= before.at:
        return None
    return (after.ticks - before.ticks) / CLOCK_TICKS / (after.at - before.at)


def _children_between(before: Sample, after: Sample) -> Iterator[ChildProcess]:
    earlier, seconds = dict(_below(before)), after.at - before.at
    for pid, now in after.children.items():
        known = seconds > 0 and (_same(earlier.get(pid), now) or now.began >= before.seen)
        yield ChildProcess(
            pid=pid,
            kind=_kind(pid),
            state=now.state,
            command=command(pid)[:300],
            cpu_share=_ticks(pid, now, earlier, before.seen) / CLOCK_TICKS / seconds if known else None,
        )


def _below(sample: Sample) -> Iterator[tuple[int, Sample]]:
    """Every process below this one, by its number."""
    for pid, child in sample.children.items():
        yield pid, child
        yield from _below(child)


def _same(before: Sample | None, after: Sample) -> bool:
    """Whether both are looks at one process: a number may have been given to another one."""
    return before is not None and before.began == after.began


def _ticks(pid: int, after: Sample, earlier: Mapping[int, Sample], since: int) -> int:
    """What a process and all below it used between two looks: a compiler's driver only waits for the compiler.

    One that began before the first look and was not below the rank then, as one is that was adopted since, counts nothing:
    nobody knows what it had used by then.
    """
    below = sum(_ticks(number, child, earlier, since) for number, child in after.children.items())
    then = earlier.get(pid)
    if then is not None and _same(then, after):
        return after.ticks - then.ticks + _reaped_since(then, after) + below
    return (after.ticks + after.reaped if after.began >= since else 0) + below


def _reaped_since(then: Sample, after: Sample) -> int:
    """What those below a process used between two looks that have ended meanwhile: a build is a row of short programs."""
    gone = (child for pid, child in then.children.items() if not _same(after.children.get(pid), child))
    return max(0, after.reaped - then.reaped - sum(map(_used, gone)))


def _used(sample: Sample) -> int:
    """What a process and all below it have used since they began."""
    return sample.ticks + sample.reaped + sum(map(_used, sample.children.values()))


def loader_workers(pid: int) -> list[int]:
    """The processes that make batches for the data loaders of process `pid`."""
    return [child for child in _children(pid) if _kind(child) == "data loader worker"]


def _kind(pid: int) -> ChildKind:
    """PyTorch names its loader workers since 2.7; before, they are forks or `multiprocessing` children of a rank."""
    line = command(pid)
    if read_or_nothing(Path(f"/proc/{pid}/comm")).strip().startswith("pt_data_worker"):
        return "data loader worker"
    fork = re.search(r"multiprocessing[./](?:spawn|forkserver)", line) and "resource_tracker" not in line
    fields = _stat(pid)
    same = fields is not None and line == command(int(fields[1])) and not line.startswith("[")
    return "data loader worker" if fork or same else "subprocess"


def _io_bytes(pid: int) -> int | None:
    """All bytes that the process has read and written, from files or from anything else."""
    try:
        counters = psutil.Process(pid).io_counters()
    except (psutil.Error, OSError):
        return None
    return counters.read_chars + counters.write_chars


def _children(pid: int) -> Iterator[int]:
    for task in Path(f"/proc/{pid}/task").glob("*"):
        yield from (int(child) for child in read_or_nothing(task / "children").split())


def _counterparts(pid: int, waits_in: str | None) -> Iterator[Counterpart]:
    for other in itertools.islice(counterparts(pid, waits_in), MOST_COUNTERPARTS):
        if (fields := _stat(other)) is not None:
            yield Counterpart(pid=other, state=fields[0], command=command(other)[:300])


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat after the name, which may hold spaces and brackets: the state is number 0."""
    fields = read_or_nothing(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields if len(fields) > 20 else None

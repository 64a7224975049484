"""Job logs into what is known of each rank's end: torchrun's and Slurm's, a file a rank or all in one."""

from __future__ import annotations

import re
import signal
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from ddpdoctor.collect.log_lines import Line, lines_of
from ddpdoctor.collect.tracebacks import Tracebacks
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.joblog import JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit

TAIL_LINES = 20
MAX_SAID = 60
MAX_SAID_CHARACTERS = 500
MAX_FORMS = 1000

_NUMBER = re.compile(r"\d+(?:[.,:e+-]*\d+)*")
_FIELD = re.compile(r"^\s*(time|host|rank|exitcode|error_file|traceback)\s*: (.*)$")
_TABLE_RANK = re.compile(r"(\d+) \(local_rank: (\d+)\)")
_TABLE_CODE = re.compile(r"(-?\d+)\s*\(pid: (\d+)\)")
_ENDED = re.compile(r"Sending process (\d+) closing signal SIG(?:TERM|INT|KILL)")
_OURS = re.compile(r"torch/distributed/elastic/|torch/multiprocessing/spawn\.py|torch/distributed/(?:run|launcher)")
_SPAWNED = re.compile(r"^-- Process (\d+) terminated with the following error:")
_SPAWNED_ENDED = re.compile(r"process (\d+) terminated with (?:signal (SIG[A-Z]+)|exit code (\d+))$")
_DEEPSPEED = re.compile(r"\[launch\.py:\d+:\w+\] \[.*'--local_rank=(\d+)'.* exits with return code = (-?\d+)$")
_HOSTS_OF_DEEPSPEED = re.compile(r"WORLD INFO DICT: \{'[^']+': \[[\d, ]*\], ")
_LAUNCHERS_OWN = {"ChildFailedError", "ProcessRaisedException", "ProcessExitedException", "CalledProcessError"}
_SRUN = re.compile(r"^srun: error: \S+: tasks? ([\d,\-]+): (?:Exited with exit code (\d+)|(\w.*))")
_CANCELLED = re.compile(
    r"(slurmstepd|srun).*(CANCELLED|DUE TO (?:TIME LIMIT|PREEMPTION)|TIME LIMIT|PREEMPT)|Received \S+ death signal",
    re.IGNORECASE,
)
_OOM = re.compile(r"oom[-_ ]kill|Out of memory: Killed|Memory cgroup out of memory|OUT_OF_MEMORY|Out Of Memory")
_KILLED_PID = re.compile(r"[Kk]illed process (\d+)")
_MATTERS = re.compile(
    r"NCCL WARN|NET/IB|ProcessGroup(?:NCCL|Gloo)\.cpp|terminate called|enforce fail|what\(\):|Fatal Python error|"
    r"Segmentation fault|CUDA error|killed by signal|Bus error|unrecognized arguments|bootstrapping phase|"
    r"Safe importing of main module|Too many open files|out of memory|No space left on device|\(Pdb\)|Watchdog caught|"
    r"Assertion `.*` failed"
)
_WORDS_OF_SIGNALS = {
    "Killed": -9, "Out Of Memory": -9, "Terminated": -15, "Segmentation fault": -11, "Aborted": -6, "Bus error": -7,
}  # fmt: skip
_WORLD = re.compile(r"(?:world[_ ]size|WORLD_SIZE|num_processes)\s*[=:]\s*(\d+)")


@dataclass(slots=True)
class _Rank:
    """What the log says of one rank, or of none."""

    tracebacks: Tracebacks = field(default_factory=Tracebacks)
    tail: deque[str] = field(default_factory=lambda: deque(maxlen=TAIL_LINES))
    said: list[str] = field(default_factory=list)
    code: int | None = None
    pid: int | None = None
    host: str = ""
    ended_at: float | None = None
    first_error: int | None = None
    forms: set[str] = field(default_factory=set)
    survived: int = 0

    def goes_on(self, text: str) -> bool:
        """Whether this line says what was said before any exception, with other numbers: `step 70 loss 0.3`."""
        form = _NUMBER.sub("#", text.strip())
        if self.tracebacks.begun:
            return form in self.forms
        if "#" in form and len(self.forms) < MAX_FORMS:
            self.forms.add(form)
        return False


@dataclass(slots=True)
class _Log:
    """All that has been read so far."""

    ranks: dict[int | None, _Rank] = field(default_factory=dict)
    ended_by_launcher: set[int] = field(default_factory=set)
    oom_pids: set[int] = field(default_factory=set)
    oom_line: str | None = None
    ended_by: str | None = None
    launcher: str | None = None
    world_size: int | None = None
    in_table: bool = False
    table_rank: int | None = None
    table_time: float | None = None
    table_host: str = ""
    spawned: int | None = None
    several_hosts: bool = False
    lines: int = 0
    errors: int = 0

    def of(self, rank: int | None) -> _Rank:
        return self.ranks.setdefault(rank, _Rank())


def read_logs(paths: Sequence[Path]) -> Evidence:
    """What the logs at `paths` say of the job and of each rank, one line after the other, whatever their size.

    Raises:
        OSError: one of them cannot be read.
    """
    log = _Log()
    for path in paths:
        for line in lines_of(path):
            log.lines += 1
            _take(log, line)
        for rank in log.ranks.values():
            rank.tracebacks.close()
        log.spawned = None
    _absent_from_the_table(log)
    handled = [] if _shows_an_end(log) else [*_take_out_what_was_survived(log)]
    _give_to_the_ranks_that_failed(log)
    lines = sorted({rank.first_error for rank in log.ranks.values() if rank.first_error is not None})
    order = {line: place for place, line in enumerate(lines)}
    return Evidence(
        job=(_job(log, paths, handled),),
        ranks=tuple(
            RankFacts(rank=number, host=rank.host, facts=(_exit(log, rank, order),))
            for number, rank in sorted(_numbered(log).items())
        ),
    )


def _take(log: _Log, line: Line) -> None:
    rank, text = line.rank, line.text
    if rank is None and _of_launcher(log, text):
        return
    if found := _SPAWNED.match(text):
        log.spawned = int(found[1])
        log.of(rank).tracebacks.close()
        return
    speaker = log.spawned if rank is None and log.spawned is not None else rank
    who = log.of(speaker)
    before = len(who.tracebacks.errors)
    if not line.marked and who.goes_on(text):
        who.tracebacks.close()
        who.survived = len(who.tracebacks.errors)
    in_traceback = who.tracebacks.feed(text, marked=line.marked)
    if who.tracebacks.errors[before:] or (in_traceback and who.first_error is None):
        who.first_error = log.lines if who.first_error is None else who.first_error
    if not in_traceback and text.strip():
        who.tail.append(text[:MAX_SAID_CHARACTERS])
        if _MATTERS.search(text) and len(who.said) < MAX_SAID:
            who.said.append(text[:MAX_SAID_CHARACTERS])
    if log.world_size is None and (told := _WORLD.search(text)):
        log.world_size = int(told[1])


def _of_launcher(log: _Log, text: str) -> bool:
    """Take a line of torchrun, Slurm or the kernel; True where it was one and says nothing of the job's own."""
    if _OOM.search(text):
        log.oom_line = log.oom_line or text.strip()[:MAX_SAID_CHARACTERS]
        log.oom_pids.update(int(pid) for pid in _KILLED_PID.findall(text))
    if _CANCELLED.search(text):
        log.ended_by = log.ended_by or text.strip()[:MAX_SAID_CHARACTERS]
    if found := _ENDED.search(text):
        log.ended_by_launcher.add(int(found[1]))
    if _OURS.search(text) and not text.startswith(" "):
        log.launcher = "torchrun"
        return True
    if found := _SPAWNED_ENDED.search(text):
        number = signal.Signals.__members__.get(found[2] or "")
        log.of(int(found[1])).code = -number if number is not None else int(found[3] or 1)
    if _of_deepspeed(log, text):
        return True
    if found := _SRUN.match(text):
        log.launcher = log.launcher or "Slurm"
        tasks = _tasks(found[1]) if log.launcher == "Slurm" else ()  # a task may be a torchrun, and no rank
        for task in tasks:
            log.of(task).code = int(found[2]) if found[2] else _WORDS_OF_SIGNALS.get(found[3].split(" (")[0], 1)
        return True
    return _of_table(log, text)


def _of_deepspeed(log: _Log, text: str) -> bool:
    """Take a line of DeepSpeed's launcher, whose local ranks are the ranks where it starts them on one host."""
    log.several_hosts = log.several_hosts or bool(_HOSTS_OF_DEEPSPEED.search(text))
    found = _DEEPSPEED.search(text)
    if found is not None and not log.several_hosts:
        log.launcher = "DeepSpeed"
        log.of(int(found[1])).code = int(found[2])
    return found is not None


def _of_table(log: _Log, text: str) -> bool:
    """Take a line of torchrun's table of failures."""
    if text.startswith(("Failures:", "Root Cause (first observed failure):")):
        log.in_table, log.launcher = True, "torchrun"
        log.of(None).tracebacks.close()
        return True
    if not log.in_table:
        return False
    if text.startswith("====="):
        log.in_table = False
        return True
    found = _FIELD.match(text)
    if found is None:
        if log.table_rank is not None and not re.match(r"^(?:\[\d+\]:|-{5,})", text):
            log.of(log.table_rank).tracebacks.feed(text.removeprefix("  "))
        return True
    _field(log, found[1], found[2].strip())
    return True


def _field(log: _Log, name: str, value: str) -> None:
    if name == "time":
        log.table_time, log.table_rank = _time(value), None
    elif name == "host":
        log.table_host = value
    elif name == "rank" and (found := _TABLE_RANK.match(value)):
        log.table_rank = int(found[1])
        log.of(log.table_rank).tracebacks.close()
        log.of(log.table_rank).host, log.of(log.table_rank).ended_at = log.table_host, log.table_time
    elif log.table_rank is not None and name == "exitcode" and (found := _TABLE_CODE.match(value)):
        log.of(log.table_rank).code, log.of(log.table_rank).pid = int(found[1]), int(found[2])
    elif log.table_rank is not None and name == "traceback" and value.startswith("Traceback"):
        log.of(log.table_rank).tracebacks.feed(value)


def _time(text: str) -> float | None:
    try:
        return datetime.strptime(text, "%Y-%m-%d_%H:%M:%S").astimezone().timestamp()
    except ValueError:
        return None


def _tasks(text: str) -> Iterable[int]:
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdigit():
            yield from range(int(low), min(int(high) if high.isdigit() else int(low), int(low) + 100_000) + 1)


def _absent_from_the_table(log: _Log) -> None:
    """A rank of a single node that the table leaves out ended well: torchrun lists all that failed or that it ended."""
    listed = {number: rank for number, rank in _numbered(log).items() if rank.pid is not None}
    if log.launcher != "torchrun" or len({rank.host for rank in listed.values()}) != 1:
        return
    size = max([*_numbered(log), (log.world_size or 0) - 1]) + 1
    for number in range(size):
        if number not in listed:
            log.of(number).code, log.of(number).host = 0, next(iter(listed.values())).host


def _shows_an_end(log: _Log) -> bool:
    """Whether anything but exceptions tells that the job failed."""
    ended = any(rank.code for rank in log.ranks.values())
    return ended or bool(log.ended_by_launcher or log.ended_by or log.oom_line)


def _take_out_what_was_survived(log: _Log) -> Iterator[RankError]:
    """Exceptions after which the same rank went on as before: somebody caught them."""
    for rank in log.ranks.values():
        errors = rank.tracebacks.errors
        yield from errors[: rank.survived]
        del errors[: rank.survived]


def _give_to_the_ranks_that_failed(log: _Log) -> None:
    """Exceptions without a rank belong to the ranks that failed without one, where there are as many and all are alike."""
    nobody = log.ranks.get(None, _Rank())
    own = [error for error in nobody.tracebacks.errors if error.type not in _LAUNCHERS_OWN]
    wordless = [
        rank
        for rank in _numbered(log).values()
        if (rank.code or 0) > 0 and not rank.tracebacks.errors and rank.pid not in log.ended_by_launcher
    ]
    if len(own) == len(wordless) and len({(error.type, error.stack) for error in own}) == 1:
        nobody.tracebacks.errors.clear()
        for rank, error in zip(wordless, own, strict=True):
            rank.tracebacks.errors.append(error)
            rank.first_error = nobody.first_error


def _numbered(log: _Log) -> dict[int, _Rank]:
    return {number: rank for number, rank in log.ranks.items() if number is not None}


def _exit(log: _Log, rank: _Rank, order: Mapping[int, int]) -> RankExit:
    ours = rank.pid is not None and rank.pid in log.ended_by_launcher
    killed = rank.code == -9 and not ours
    return RankExit(
        exit_code=rank.code,
        error=_last(rank.tracebacks.errors) if rank.code != 0 else None,
        ended_by_launcher=ours,
        ended_at=rank.ended_at,
        order=order[rank.first_error] if rank.first_error is not None else None,
        tail=tuple(dict.fromkeys([*rank.said, *rank.tail])),
        kernel_said=log.oom_line if killed and (not log.oom_pids or rank.pid in log.oom_pids) else None,
        pid=rank.pid,
    )


def _last(errors: Sequence[RankError]) -> RankError | None:
    """The exception that ended a rank: its last one, with the first as its cause where they were told apart."""
    own = [error for error in errors if error.type not in _LAUNCHERS_OWN]
    if not own:
        return None
    last = own[-1]
    return replace(last, cause=own[0]) if len(own) > 1 and last.cause is None and own[0] != last else last


def _job(log: _Log, paths: Sequence[Path], handled: Sequence[RankError]) -> JobLog:
    nobody = log.ranks.get(None, _Rank())
    return JobLog(
        files=tuple(map(str, paths)),
        lines=log.lines,
        launcher=log.launcher,
        world_size=log.world_size,
        errors=tuple(error for error in nobody.tracebacks.errors if error.type not in _LAUNCHERS_OWN),
        said=tuple(dict.fromkeys([*nobody.said, *([log.oom_line] if log.oom_line else [])])),
        ended_by=log.ended_by,
        handled=tuple(handled),
    )

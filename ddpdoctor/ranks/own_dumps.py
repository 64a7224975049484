"""The flight recorder of a rank that runs without our agent: dumped by PyTorch itself, on request where the rank takes requests.

With NCCL, a rank whose environment has `TORCH_NCCL_DEBUG_INFO_PIPE_FILE` makes a named pipe and dumps its recorder, with stacks,
once anything is written to it. The job goes on. Without that variable there is a dump only once the watchdog has given up.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.host.owned_files import check_owner, user_of
from ddpdoctor.host.processes import has_mapped, started_at
from ddpdoctor.ranks.fr_dump_files import read_dump, thread_ids
from ddpdoctor.ranks.target import Target

PIPE = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
OLD_DEFAULT = "/tmp/nccl_trace_rank_"  # noqa: S108 - where PyTorch before 2.8 dumps without TORCH_FR_DUMP_TEMP_FILE
WAIT_SECONDS = 4.0  # the rank reads its pipe once a second, and a dump of a full ring takes another
POLL_SECONDS = 0.05
CLOCK_SLACK_SECONDS = (
    0.05  # the times of files come from a clock that the kernel sets at each of its ticks, of up to 10 ms
)
REQUEST = b"1\n"  # PyTorch looks at the length only


@dataclass(frozen=True, slots=True, kw_only=True)
class Requests:
    """Ranks that were asked for a dump."""

    at: Mapping[int, float]
    """By rank, when it was asked, in seconds since the epoch."""


def request(targets: Iterable[Target], environ: Mapping[str, str]) -> Requests:
    """Ask each rank without an agent for a dump of its recorder, where the job's variables say that it takes requests."""
    at: dict[int, float] = {}
    prefix = environ.get(PIPE)
    for target in targets:
        if prefix and target.agent is None and (user := user_of(target.pid)) is not None:  # else it has ended
            now = time.time() - CLOCK_SLACK_SECONDS
            with contextlib.suppress(
                OSError
            ):  # no such pipe, or nobody reads it: the rank has made no group of NCCL yet
                _write(Path(f"{prefix}{target.rank}.pipe"), user)
                at[target.rank] = now
    return Requests(at=at)


def collect(
    targets: Iterable[Target], environ: Mapping[str, str], requests: Requests
) -> Iterator[tuple[int, FlightRecord]]:
    """Each rank whose own dump of this run can be read, with the record; what was requested is waited for.

    All jobs of a user write to one default path: what another job has written there is left out.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    for target in targets:
        paths = [Path(f"{prefix}{target.rank}") for prefix in prefixes(environ)]
        asked = requests.at.get(target.rank)
        if asked is not None:
            _wait_for(paths, asked, deadline)
        began = started_at(target.pid) or 0.0
        path = max(paths, key=_written)
        if _written(path)[0] >= began:
            with contextlib.suppress(UndecidedError, OSError):
                record = read_dump(path, user_of(target.pid)).record
                if _is_of(target.pid, began, record, thread_ids(path, user_of(target.pid))):
                    yield target.rank, record


def _is_of(pid: int, began: float, record: FlightRecord, threads: Collection[int]) -> bool:
    """Whether a record may be of process `pid`: no call is older than the process, and its threads have a place in its memory.

    The addresses of threads are drawn at random for each process, unless one forked the other.
    """
    older = min(record.created_ns, default=began * 1e9) < (began - CLOCK_SLACK_SECONDS) * 1e9
    return not older and (not threads or has_mapped(pid, threads) is not False)


def prefixes(environ: Mapping[str, str]) -> tuple[str, ...]:
    """What the names of a job's dumps may begin with: as its variables say, or any version's default."""
    given = environ.get("TORCH_FR_DUMP_TEMP_FILE") or environ.get("TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
    if given:
        return (given,)
    cache = environ.get("XDG_CACHE_HOME") or f"{environ.get('HOME', '/tmp')}/.cache"  # noqa: S108 - PyTorch's own
    return f"{cache}/torch/comm_lib_trace_rank_", OLD_DEFAULT


def _write(pipe: Path, owner: int) -> None:
    """Write a request to the named pipe of a rank of user `owner`.

    Raises:
        OSError: it is no named pipe, of another user, or nobody reads it.
    """
    descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISFIFO(found.st_mode):
            raise OSError(f"{pipe} is not a named pipe")
        check_owner(found.st_uid, owner, pipe)
        os.write(descriptor, REQUEST)
    finally:
        os.close(descriptor)


def _wait_for(paths: Iterable[Path], asked: float, deadline: float) -> None:
    """Wait until one of the files has been written after `asked` and has not grown between two looks."""
    before: dict[Path, int] = {}
    while time.monotonic() < deadline:
        for path in paths:
            written_at, size = _written(path)
            if written_at >= asked:
                if size == before.get(path):
                    return
                before[path] = size
        time.sleep(POLL_SECONDS)


def _written(path: Path) -> tuple[float, int]:
    """When the file was last written to, in seconds since the epoch, and its size in bytes; zeros where there is none."""
    try:
        found = path.stat()
    except OSError:
        return 0.0, 0
    return found.st_mtime, found.st_size

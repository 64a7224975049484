"""What the agents of a job wrote: which process is which rank, how far it came, what it called and how it ended."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from pathlib import Path

from ddpdoctor.agent.inside.schema.call_ring import HEADER_BYTES, NO_RANK, RING, Header
from ddpdoctor.agent.inside.schema.call_texts import Joining as JoiningText
from ddpdoctor.agent.inside.schema.rank_end import ExitCode, Left, RankFailure, ThreadFailure
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.launch import EnvOverwrite, Joining
from ddpdoctor.evidence.ranks import RankError, StepCount, ThreadError, ThreadErrors
from ddpdoctor.host.owned_files import MOST_BYTES, read_beginning, read_owned
from ddpdoctor.host.processes import is_alive
from ddpdoctor.logs.faulthandler_stacks import frames_of_crash, from_faulthandler
from ddpdoctor.ranks.call_log_reader import CallLogReader
from ddpdoctor.ranks.call_ring_reader import read_header, read_records
from ddpdoctor.ranks.call_texts_reader import read_texts
from ddpdoctor.ranks.json_records import read_json, read_json_lines
from ddpdoctor.ranks.written_errors import error_of, frame_of

FATAL = "Fatal Python error: "
OF_FAULTHANDLER = {
    "Segmentation fault": signal.SIGSEGV,
    "Aborted": signal.SIGABRT,
    "Bus error": signal.SIGBUS,
    "Floating-point exception": signal.SIGFPE,
    "Floating point exception": signal.SIGFPE,  # as older versions of Python write it
    "Illegal instruction": signal.SIGILL,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProcess:
    """One rank of the job on this host, as its agent wrote it down."""

    directory: Path
    """The folder in which the agents of the job write."""
    pid: int
    """The process id on this host, which its files are named after."""
    header: Header
    """The rank, world size and counters at the beginning of its call ring, as they were when it was read."""
    owner: int | None = None
    """The user whose files are believed; None where the directory is our own."""
    rivals: tuple[RankProcess, ...] = field(default=(), compare=False)
    """The other living processes of this rank that are no earlier start of it."""

    @property
    def rank(self) -> int:
        """Its rank in the job."""
        return self.header.rank

    def file(self, suffix: str) -> Path:
        """The rank's file `PID.suffix`."""
        return self.directory / f"{self.pid}.{suffix}"

    def steps(self) -> StepCount:
        """How far it came."""
        return StepCount(forwards=self.header.forwards or None, steps=self.header.steps)

    def call_log(self, *, most: int = RING) -> CallLogReader:
        """What it called, as far as its ring still holds it: the last `most` records."""
        return CallLogReader(read_records(self._bytes("ring"), most=most), read_texts(self._bytes("texts")))

    def error(self) -> tuple[RankError, float] | None:
        """The error that it recorded first, and when; None where it recorded none."""
        found = read_json(RankFailure, self._bytes("error"))
        return (error_of(found.error), found.at) if found is not None else None

    def thread_errors(self) -> tuple[ThreadErrors, ...]:
        """The errors that ended threads of it; nothing where there were none."""
        found = read_json_lines(ThreadFailure, self._bytes("threads"))
        each = tuple(ThreadError(thread=one.thread, error=error_of(one.error)) for one in found)
        return (ThreadErrors(each=each),) if each else ()

    def debug(self) -> str | None:
        """The debug level of torch.distributed when the rank joined, or None where it was off."""
        joining = self._joining()
        return (joining.debug or None) if joining is not None else None

    def joining(self, given: Joining) -> Joining:
        """What its launcher gave it, with where its `init_process_group` looks for the other ranks and for how many it waits."""
        text = self._joining()
        used = self.looks_at() or given.used
        writes = text.writes if text is not None else ()
        return replace(
            given,
            used=used,
            rivals=tuple(one.pid for one in self.rivals if one.looks_at() == used) if used else (),
            world_size=self.header.world_size or None,
            overwrites=tuple(
                EnvOverwrite(
                    name=one.name,
                    value=one.value,
                    file=one.place.file,
                    line=one.place.line,
                    function=one.place.function,
                )
                for one in writes
            ),
        )

    def looks_at(self) -> str:
        """Where its `init_process_group` looks for the other ranks, as `HOST:PORT`; empty where that is no address."""
        text = self._joining()
        return text.rendezvous if text is not None else ""

    def _joining(self) -> JoiningText | None:
        return read_texts(self._bytes("texts")).joining

    def recorder(self) -> bytes | None:
        """The flight recorder as the rank kept it at its end, or None where it could not."""
        return self._bytes("recorder") or None

    def _bytes(self, suffix: str) -> bytes:
        return _bytes(self.file(suffix), owner=self.owner)

    def crash(self) -> tuple[Frame, ...]:
        """Where Python was when a fault in native code or its own SIGKILL ended the rank, innermost first; or empty."""
        return frames_of_crash(self._bytes("crash").decode(errors="replace"))

    def ended_at(self) -> tuple[Frame, ...]:
        """Where the main thread was when a launcher was about to end the rank, innermost first; or empty."""
        threads = from_faulthandler(self._bytes("ending").decode(errors="replace"))
        return next((thread.frames for thread in threads if thread.main), ())

    def crashed_by(self) -> int | None:
        """The signal of that fault; None without one."""
        first = self._bytes("crash").decode(errors="replace").partition("\n")[0]
        return OF_FAULTHANDLER.get(first.removeprefix(FATAL)) if first.startswith(FATAL) else None

    def left_at(self) -> float | None:
        """When the interpreter of the rank reached its end in order (whatever its exit code), or None."""
        left = read_json(Left, self._bytes("left"))
        return left.at if left is not None else None

    def left_by(self) -> tuple[Frame, ...]:
        """Where the main thread called `sys.exit`, `exit` or `os._exit` without a failure, innermost first; or empty."""
        left = read_json(Left, self._bytes("left"))
        return tuple(map(frame_of, left.called)) if left is not None else ()


def find_ranks(directory: Path, owner: int | None = None) -> tuple[RankProcess, ...]:
    """The ranks whose agents write to `directory`, in order; of a rank that was restarted the latest process.

    Where an `owner` is given, only files of that user count. A process with the launcher and local rank of an earlier one
    has replaced it, whatever the ranks of the two.

    Raises:
        OtherVersionError: the agent of a rank is that of another version of ddpdoctor.
    """
    oldest_first = _oldest_first(directory, owner)
    latest = _latest(oldest_first)
    if len(latest) == len(oldest_first):
        return latest
    return tuple(replace(process, rivals=_rivals(process, oldest_first)) for process in latest)


def ranks_of_attempts(directory: Path) -> dict[int, tuple[RankProcess, ...]]:
    """By how often the launcher had started its ranks before, the ranks of each attempt that a rank joined."""
    oldest_first = _oldest_first(directory, None)
    restarts = sorted({process.header.restart for process in oldest_first})
    return {
        restart: _latest([process for process in oldest_first if process.header.restart == restart])
        for restart in restarts
    }


def _oldest_first(directory: Path, owner: int | None) -> list[RankProcess]:
    found: list[tuple[int, float, RankProcess]] = []
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):  # noqa: PTH208 - a path object for each file costs more than the rest of a poll
            pid, _, suffix = name.partition(".")
            if suffix != "ring" or not pid.isdigit():
                continue
            with contextlib.suppress(OSError):
                beginning, changed_at = read_beginning(f"{directory}/{name}", owner, most=HEADER_BYTES)
                header = read_header(beginning, f"the call ring of process {pid}")
                if header is not None and header.rank >= 0:
                    process = RankProcess(directory=directory, pid=int(pid), header=header, owner=owner)
                    found.append((header.restart, changed_at, process))
    found.sort(key=itemgetter(0, 1))
    return [process for _, _, process in found]


def _latest(oldest_first: Sequence[RankProcess]) -> tuple[RankProcess, ...]:
    """By rank, the processes that no other one has replaced."""
    youngest = {_slot(process): process for process in oldest_first}
    latest = {process.rank: process for process in oldest_first if youngest[_slot(process)] is process}
    return tuple(latest[rank] for rank in sorted(latest))


def _rivals(process: RankProcess, others: Sequence[RankProcess]) -> tuple[RankProcess, ...]:
    """The living processes among `others` that have the rank of this one, and were started as often."""
    same = (one for one in others if one.rank == process.rank and one.header.restart == process.header.restart)
    return tuple(one for one in same if one is not process and is_alive(one.pid))


def _slot(process: RankProcess) -> tuple[int, int]:
    """What a process shares with the one that it replaced: its launcher and local rank, or its rank where none is set."""
    header = process.header
    return (0, header.rank) if header.local_rank == NO_RANK else (header.launcher, header.local_rank)


def ended_processes(directory: Path) -> dict[int, ExitCode]:
    """By pid, the processes of the job that some Python parent collected."""
    found: dict[int, ExitCode] = {}
    for ended in read_json_lines(ExitCode, _bytes(directory / "exits")):
        found.setdefault(ended.pid, ended)
    return found


def _bytes(path: Path, most: int = MOST_BYTES, *, owner: int | None = None) -> bytes:
    try:
        return read_owned(path, owner, most=most)
    except OSError:
        return b""

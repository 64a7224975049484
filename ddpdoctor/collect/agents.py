"""What the agents of a job wrote: which process is which rank, how far it came, what it called and how it ended."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from ddpdoctor.agent.inside.calls import POINT_TO_POINT
from ddpdoctor.agent.inside.strip import (
    HEADER_BYTES,
    NO_ROOT,
    NO_SEAT,
    NO_SEQ,
    Header,
    Record,
    read_header,
    read_records,
)
from ddpdoctor.collect.faulthandler_text import from_faulthandler
from ddpdoctor.collect.last_calls import record_from
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.pace import Pace
from ddpdoctor.evidence.ranks import (
    CollectiveCall,
    CollectiveCalls,
    Forward,
    Handled,
    NewGroup,
    RankError,
    StepCount,
    StepMark,
    ThreadError,
    ThreadErrors,
)
from ddpdoctor.evidence.recorder import FlightRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """A process whose parent collected its exit code: -N for signal N."""

    pid: int
    code: int
    at: float
    parent: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankProcess:
    """One rank of the job on this host, as its agent wrote it down."""

    directory: Path
    pid: int
    header: Header

    @property
    def rank(self) -> int:
        """Its rank in the job."""
        return self.header.rank

    def file(self, suffix: str) -> Path:
        """The rank's file `PID.suffix`."""
        return self.directory / f"{self.pid}.{suffix}"

    def steps(self) -> StepCount:
        """How far it came."""
        header = self.header
        return StepCount(
            forwards=header.forwards or None,
            steps=header.steps,
            last_at=header.last_ns / 1e9 if header.last_ns else None,
        )

    def calls(self) -> CollectiveCalls:
        """What it called, from the ring that is in the file now."""
        names = _names(self.file("names"))
        by_kind: dict[str, list[Record]] = {"op": [], "mark": [], "new_group": []}
        for record in read_records(_bytes(self.file("strip"))):
            kind, text = (*names.get(record.op, ()), "", "")[:2]
            by_kind.get("new_group" if text == "new_group" else str(kind), []).append(record)
        return CollectiveCalls(
            calls=tuple(_call(record, names) for record in by_kind["op"]),
            steps=_iterations(by_kind["mark"], names),
            forwards=tuple(_forwards(by_kind["mark"], names)),
            new_groups=tuple(_new_group(record, names) for record in by_kind["new_group"]),
            handled=tuple(_handled(text) for text in names.values() if text[:1] == ("handling",)),
        )

    def pace(self) -> Pace:
        """When its latest iterations began, from the ring that is in the file now."""
        names = _names(self.file("names"))
        records = read_records(_bytes(self.file("strip")))
        batches = [record for record in records if names.get(record.op) == ("mark", "batch")]
        forwards = [record for record in records if names.get(record.op) == ("mark", "forward")]
        return Pace(
            asked_ns=tuple(record.began_ns for record in batches),
            drawn_ns=tuple(record.returned_ns for record in batches),
            forward_ns=tuple(record.began_ns for record in forwards),
            forward=_place(names, forwards[-1].place) if forwards else None,
        )

    def error(self) -> tuple[RankError, float] | None:
        """The error that it recorded first, and when; None where it recorded none."""
        try:
            written = msgspec.json.decode(self.file("error").read_bytes(), type=_Error)
        except (OSError, msgspec.DecodeError):
            return None
        return written.told(), written.at

    def thread_errors(self) -> tuple[ThreadErrors, ...]:
        """The errors that ended threads of it; nothing where there were none."""
        each = []
        for line in _bytes(self.file("threads")).splitlines():
            with contextlib.suppress(msgspec.DecodeError):  # the last line may be torn
                written = msgspec.json.decode(line, type=_Error)
                each.append(ThreadError(thread=written.thread, error=written.told()))
        return (ThreadErrors(each=tuple(each)),) if each else ()

    def debug(self) -> str | None:
        """TORCH_DISTRIBUTED_DEBUG as the rank had it when it joined, or None where it was not set."""
        said = (text for text in _names(self.file("names")).values() if text[0] == "debug")
        return next((str(value) for _, value in said if value), None)

    def last_calls(self) -> FlightRecord | None:
        """What the strip knows of the calls that a recorder would hold."""
        names = _names(self.file("names"))
        records = read_records(_bytes(self.file("strip")))
        return record_from(records, names, [_lines(names, record.place) for record in records])

    def recorder(self) -> bytes | None:
        """The flight recorder as the rank kept it at its end, or None where it could not."""
        try:
            return self.file("recorder").read_bytes()
        except OSError:
            return None

    def crash(self) -> tuple[Frame, ...]:
        """Where Python was when a fault in native code ended the rank, innermost first; empty without one."""
        threads = from_faulthandler(_bytes(self.file("crash")).decode(errors="replace"))
        return next((thread.frames for thread in threads if thread.main), ())

    def left_at(self) -> float | None:
        """When the interpreter of the rank came to its end in order (whatever its exit code), or None."""
        try:
            return float(self.file("left").read_text())
        except (OSError, ValueError):
            return None


def find_ranks(directory: Path) -> tuple[RankProcess, ...]:
    """The ranks whose agents write to `directory`, in order; of a rank that was restarted the latest process.

    A process that has its launcher's seat from another one has taken its place, whatever the numbers of the two.
    """
    ages: dict[RankProcess, tuple[int, float]] = {}
    for strip in directory.glob("*.strip"):
        header = read_header(_bytes(strip, HEADER_BYTES))
        if header is not None and header.rank >= 0 and strip.stem.isdigit():
            process = RankProcess(directory=directory, pid=int(strip.stem), header=header)
            ages[process] = (header.restart, strip.stat().st_ctime)
    oldest_first = sorted(ages, key=ages.__getitem__)
    seated = {_seat(process): process for process in oldest_first}
    latest = {process.rank: process for process in oldest_first if seated[_seat(process)] is process}
    return tuple(latest[rank] for rank in sorted(latest))


def _seat(process: RankProcess) -> tuple[int, int]:
    header = process.header
    return (0, header.rank) if header.seat == NO_SEAT else (header.launcher, header.seat)


def ended_processes(directory: Path) -> dict[int, Ended]:
    """By pid, the processes of the job that some Python parent collected."""
    found: dict[int, Ended] = {}
    for line in _bytes(directory / "exits").decode(errors="replace").splitlines():
        words = line.split()
        if len(words) == 4:  # a line may be torn where its writer died
            pid, code, at, parent = words
            found.setdefault(int(pid), Ended(pid=int(pid), code=int(code), at=float(at), parent=int(parent)))
    return found


class _Frame(msgspec.Struct):
    file: str
    line: int
    function: str


class _Error(msgspec.Struct):
    type: str
    message: str
    stack: list[_Frame] = []
    cause: _Error | None = None
    at: float = 0.0
    thread: str = ""

    def told(self) -> RankError:
        return RankError(
            type=self.type,
            message=self.message,
            stack=tuple(Frame(file=frame.file, line=frame.line, function=frame.function) for frame in self.stack),
            cause=self.cause.told() if self.cause else None,
        )


Names = Mapping[int, tuple[str | int, ...]]


def _names(path: Path) -> Names:
    found: dict[int, tuple[str | int, ...]] = {}
    for line in _bytes(path).splitlines():
        try:
            number, *text = json.loads(line)
            found[number] = tuple(text)
        except (ValueError, TypeError):  # noqa: PERF203 - the last line may be torn
            continue
    return found


def _call(record: Record, names: Names) -> CollectiveCall:
    op = str(_text(names, record.op))
    root = None if record.root == NO_ROOT else record.root
    return CollectiveCall(
        op=op,
        group=str(names.get(record.group, ("", "?"))[1]),
        seq=None if record.seq == NO_SEQ else record.seq,
        reduce_op=str(_text(names, record.reduce_op)) if record.reduce_op else None,
        root=None if op in POINT_TO_POINT else root,
        peer=root if op in POINT_TO_POINT else None,
        tag=record.tensors if op in POINT_TO_POINT else 0,
        returned=record.returned_ns != 0,
        place=_place(names, record.place),
    )


def _iterations(marks: Sequence[Record], names: Names) -> tuple[StepMark, ...]:
    """The marks of one count: batches of the data that most training forwards followed, or else the forwards themselves.

    A loader that is drawn from without training is for evaluation, and says nothing of the iteration.
    """
    followed: dict[int, int] = {}
    for mark, following in pairwise(marks):
        if names.get(mark.op) == ("mark", "batch") and names.get(following.op) == ("mark", "forward"):
            followed[mark.place] = followed.get(mark.place, 0) + 1
    if followed:
        source = max(followed, key=followed.__getitem__)
        counted = [mark for mark in marks if mark.place == source and names.get(mark.op) == ("mark", "batch")]
    else:
        counted = [mark for mark in marks if names.get(mark.op) == ("mark", "forward")]
    return tuple(
        StepMark(iteration=mark.root, seq=mark.seq, in_pass=_turn(mark) if followed else None)
        for mark in counted
        if mark.seq != NO_SEQ
    )


def _forwards(marks: Sequence[Record], names: Names) -> Iterator[Forward]:
    for mark in marks:
        place = _place(names, mark.place) if names.get(mark.op) == ("mark", "forward") else None
        if place is not None:
            yield Forward(number=mark.root, place=place, turn=_turn(mark))


def _turn(mark: Record) -> int | None:
    return mark.tensors - 1 if mark.tensors else None


def _new_group(record: Record, names: Names) -> NewGroup:
    members = str(_text(names, record.group))
    return NewGroup(
        ranks=tuple(int(member) for member in members.split(",") if member.isdigit()),
        returned=record.returned_ns != 0,
        place=_place(names, record.place),
    )


def _handled(text: tuple[str | int, ...]) -> Handled:
    _, group, seq, kind, said, *lines = text
    error = RankError(type=str(kind), message=str(said), stack=_frames(lines))
    return Handled(group=str(group), seq=int(seq), error=error)


def _text(names: Names, number: int) -> str | int:
    return names.get(number, ("", "?"))[-1]


def _place(names: Names, number: int) -> Frame | None:
    """The innermost of the user's lines that this number stands for."""
    return next(iter(_lines(names, number)), None)


def _lines(names: Names, number: int) -> tuple[Frame, ...]:
    """The user's lines that this number stands for, innermost first."""
    return _frames(names.get(number, ()))


def _frames(text: Sequence[str | int]) -> tuple[Frame, ...]:
    return tuple(
        Frame(file=file, line=line, function=function)
        for file, line, function in zip(text[::3], text[1::3], text[2::3], strict=False)
        if isinstance(file, str) and isinstance(line, int) and isinstance(function, str)
    )


def _bytes(path: Path, most: int = -1) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""

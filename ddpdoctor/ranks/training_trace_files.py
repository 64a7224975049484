"""The records of the training traces in a directory; see `agent.inside.schema.training_trace`."""

from __future__ import annotations

import contextlib
import itertools
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, get_args

import msgspec

from ddpdoctor.agent.inside.schema.data_records import Epoch, Evaluation
from ddpdoctor.agent.inside.schema.model_records import Table, WrappedTwice
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.agent.inside.schema.step_records import Overflow, Step
from ddpdoctor.agent.inside.schema.training_trace import SUFFIX, VERSION, Joined, TraceRecord, carried_as
from ddpdoctor.agent.inside.schema.unwrapped_records import UnwrappedModels
from ddpdoctor.ranks.call_ring_reader import OtherVersionError
from ddpdoctor.whole_numbers import whole_number

T = TypeVar("T")
KEPT = "kept"  # the folder of segments that were kept beside those that the ranks keep
_KINDS: Mapping[str, type[TraceRecord]] = {kind.__name__: kind for kind in get_args(TraceRecord)}


def read_traces(directory: Path) -> dict[int, tuple[Joined, Sequence[TraceRecord]]]:
    """How each rank joined the job, with its records in order: those of the parts of the run that all ranks have kept.

    Raises:
        OtherVersionError: a rank ran another version of ddpdoctor.
    """
    found: dict[int, tuple[Joined, Sequence[TraceRecord]]] = {}
    cut: set[int] = set()
    for segments in sorted(_segments_by_rank(directory), key=lambda segments: segments[-1].written_at):
        records = _joined_segments([[*_complete(_records_in(segment.data))] for segment in segments])
        joined = next(iter(of_kind(Joined, records)), None)
        if joined is not None and joined.rank is not None:
            found[joined.rank] = joined, records
            is_cut = len(segments) <= segments[-1].number
            (cut.add if is_cut else cut.discard)(joined.rank)
    if cut:
        common = _in_common({rank: records for rank, (_, records) in found.items()})
        found = {rank: (joined, common[rank]) for rank, (joined, _) in found.items()}
    return dict(sorted(found.items()))


def read_trace(file: Path) -> tuple[TraceRecord, ...]:
    """The records of one rank, in order; lines that are incomplete, because the rank died in them, are left out.

    Raises:
        OtherVersionError: the rank ran another version of ddpdoctor.
    """
    return tuple(_records_in(file.read_bytes()))


def segments_of(directory: Path, pid: int) -> list[int]:
    """The numbers of the segments that a process has kept of its trace, in order."""
    return sorted(map(_number_of, directory.glob(f"{pid}.*{SUFFIX}")))


def second_wraps(directory: Path) -> set[SourceLine]:
    """Where ranks put a model under a second DistributedDataParallel, and called both."""
    beginning = f'["{WrappedTwice.__name__}"'.encode()
    lines = (line for file in directory.glob("*.sync.jsonl") for line in file.read_bytes().splitlines())
    return {
        twice.line for twice in of_kind(WrappedTwice, _records(filter(lambda one: one.startswith(beginning), lines)))
    }


def of_kind(kind: type[T], records: Iterable[TraceRecord]) -> list[T]:
    """The records of one kind."""
    return [record for record in records if isinstance(record, kind)]


def keep_segments(directory: Path) -> None:
    """Keep what all ranks have of their traces now, although they go on and remove their older segments."""
    kept = directory / KEPT
    kept.mkdir(exist_ok=True)
    for file in directory.glob(f"*.{SUFFIX}"):
        with contextlib.suppress(FileNotFoundError):  # its rank has just begun another one
            shutil.copy(file, kept)


@dataclass(frozen=True, slots=True)
class _Segment:
    """One file of a process."""

    number: int
    written_at: float
    data: bytes


def _segments_by_rank(directory: Path) -> list[list[_Segment]]:
    """The segments of each process in order."""
    found: dict[str, dict[int, _Segment]] = {}
    for file in (*(directory / KEPT).glob(f"*.{SUFFIX}"), *directory.glob(f"*.{SUFFIX}")):
        with contextlib.suppress(FileNotFoundError):  # its rank has begun another one
            segment = _Segment(_number_of(file), file.stat().st_mtime, file.read_bytes())
            found.setdefault(file.name.partition(".")[0], {})[segment.number] = segment
    return [[segments[number] for number in sorted(segments)] for segments in found.values()]


def _number_of(file: Path) -> int:
    number = file.name.removesuffix(f".{SUFFIX}").partition(".")[2]
    return whole_number(number) or 0


def _joined_segments(segments: Sequence[Sequence[TraceRecord]]) -> list[TraceRecord]:
    """The records of all segments, without those that a segment repeats at its beginning."""
    first, *later = segments
    records = [*first]
    for segment in later:
        carried = [(type(record), record) for record in records if carried_as(record) is not None]
        opening = [*itertools.takewhile(lambda record: carried_as(record) is not None, segment)]
        records += [record for record in opening if (type(record), record) not in carried]
        records += segment[len(opening) :]
    return records


def _complete(records: Iterable[TraceRecord]) -> Iterator[TraceRecord]:
    """The records of one segment, each with what it leaves out because it is as in the record before."""
    last: dict[str, list[Any]] = {}

    def known(what: str, value: list[Any] | None) -> list[Any]:
        if value is not None:
            last[what] = value
        return last.get(what, [])

    for record in records:
        match record:
            case Table():
                yield record._replace(names=known("table", record.names), shapes=known("shapes", record.shapes))
            case Step(stepping=stepping, gradients=gradients):
                if (state := stepping.state) is not None:
                    stepping = stepping._replace(state=state._replace(names=known("state", state.names)))
                if gradients is not None:
                    gradients = gradients._replace(
                        names=known("gradients", gradients.names), standings=known("standings", gradients.standings)
                    )
                yield record._replace(stepping=stepping, gradients=gradients)
            case _:
                yield record


def _in_common(by_rank: Mapping[int, Sequence[TraceRecord]]) -> dict[int, Sequence[TraceRecord]]:
    """The records about the part of the run of which all ranks have kept their records.

    Ranks write different amounts, so their oldest segments begin at different steps and epochs.
    """
    steps = {rank: of_kind(Step, records) for rank, records in by_rank.items()}
    forwards = max((mine[0].forwards for mine in steps.values() if mine), default=0)
    epochs: dict[int, int] = {}
    for loader in {epoch.loader for records in by_rank.values() for epoch in of_kind(Epoch, records)}:
        of_ranks = [
            [one.number for one in of_kind(Epoch, records) if one.loader == loader] for records in by_rank.values()
        ]
        epochs[loader] = max((min(mine) for mine in of_ranks if mine), default=0)

    evaluations = [{one.step for one in of_kind(Evaluation, records)} for records in by_rank.values()]
    evaluated = set.intersection(*evaluations)

    def is_common(record: TraceRecord) -> bool:
        if isinstance(record, (Step, Overflow, UnwrappedModels)):
            return record.forwards >= forwards
        if isinstance(record, Evaluation):
            return record.step in evaluated
        return not isinstance(record, Epoch) or record.number >= epochs[record.loader]

    return {rank: [record for record in records if is_common(record)] for rank, records in by_rank.items()}


def _records_in(data: bytes) -> Iterator[TraceRecord]:
    """The records of a segment; what follows the last complete line is none."""
    return _records(data[: data.rfind(b"\n") + 1].splitlines())


def _records(lines: Iterable[bytes]) -> Iterator[TraceRecord]:
    for line in lines:
        with contextlib.suppress(ValueError, LookupError, TypeError):
            name, fields = json.loads(line)
            if name == Joined.__name__ and fields[0] != VERSION:
                raise OtherVersionError(f"the training trace of rank {fields[1]}", fields[0], VERSION)
            yield msgspec.convert(fields, type=_KINDS[name])

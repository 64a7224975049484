"""Which rank left a single send or receive out, or made one more: the numbers of batches do not tell, and rings lose batches.

NCCL's recorder counts each half of a batch. Ranks with the same part in the job have issued as many by the same batch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from ddpdoctor.analysis.collectives.programs.program_comparison import MOST_COMPARED, ProgramComparison
from ddpdoctor.analysis.collectives.programs.rank_program import FARTHEST, CallKind, ahead_of_most, latest_first
from ddpdoctor.analysis.collectives.recorders.call_sequences import END_OF_COALESCED
from ddpdoctor.evidence.recorder import FlightRecord


@dataclass(frozen=True, slots=True)
class _Halves:
    """One rank's sends and receives in one group."""

    issued: int
    """How many it had issued by its last entry."""
    numbers: Sequence[int]
    """The number of the batch of each that its ring buffer still holds, ascending."""
    last: int
    """The number of the last batch behind which it went on."""

    def until(self, number: int) -> int | None:
        """How many it had issued when this batch was closed; None where the ring buffer has lost the ones behind it."""
        if number < self.numbers[0]:
            return None
        return self.issued - (len(self.numbers) - bisect_right(self.numbers, number))


@dataclass(frozen=True, slots=True)
class TransferSurplus:
    """Compares how many sends and receives ranks have issued with what ranks with their part have."""

    programs: ProgramComparison
    """The calls of all ranks."""
    _known: dict[tuple[int, CallKind], _Halves | None] = field(default_factory=dict)

    def of(self, rank: int, kind: CallKind) -> int | None:
        """By how many sends and receives of this kind the rank is ahead of ranks with its part; below 0 it left some out.

        None where the dumps do not tell.
        """
        return self.of_halves(rank, kind) or self._beside_one(rank, kind, self._batches_ahead)

    def of_halves(self, rank: int, kind: CallKind) -> int | None:
        """The same where it issued as many batches, up to the last one that it and each of the others have issued."""
        if self._halves(rank, kind) is None:
            return None
        others = islice(self.programs.like(rank), MOST_COMPARED)
        found = {other: self._halves_ahead(rank, other, kind) for other in others}
        if len(found) == 1:
            return self._beside_one(rank, kind, self._halves_ahead)
        return ahead_of_most(rank, {other: extra for other, extra in found.items() if extra is not None})

    def _beside_one(self, rank: int, kind: CallKind, ahead: Callable[[int, int, CallKind], int | None]) -> int | None:
        """The same where one other rank alone has its part: of two groups that do the same, one rank of one deviates."""

        def extra_of(one: int) -> int | None:
            like = [*islice(self.programs.like(one), 2)]
            return ahead(one, like[0], kind) if len(like) == 1 else None

        extra = extra_of(rank)
        if not extra:
            return extra
        labels = self.programs.labels(rank)
        groups = (group for name, group in self.programs.groups(rank).items() if labels[name] == kind.group)
        others = {other for group in groups for other in group.ranks or ()} & self.programs.records.keys() - {rank}
        return extra if others and all(extra_of(other) == 0 for other in others) else None

    def _halves_ahead(self, rank: int, other: int, kind: CallKind) -> int | None:
        mine, theirs = self._halves(rank, kind), self._halves(other, kind)
        if mine is None or theirs is None:
            return None
        both = min(mine.last, theirs.last)
        made, others_made = mine.until(both), theirs.until(both)
        return made - others_made if made is not None and others_made is not None else None

    def _batches_ahead(self, rank: int, other: int, kind: CallKind) -> int | None:
        """By how many batches the rank is ahead of another one at the last call of another kind that both made."""
        mine = self.programs.program(rank)
        for other_kind, number, place in latest_first(mine, kind):
            made = mine.made_before(kind, place)
            theirs = self.programs.made_by_others(rank, kind, other_kind, number).get(other)
            if made is not None and theirs is not None and self.programs.follow_each_other(rank, kind, other_kind):
                return made - theirs if abs(made - theirs) <= FARTHEST else None
        return None

    def _halves(self, rank: int, kind: CallKind) -> _Halves | None:
        if (rank, kind) not in self._known:
            record, labels = self.programs.records[rank], self.programs.labels(rank)
            group = next((n for n, one in enumerate(record.groups) if labels[one.name] == kind.group), None)
            self._known[rank, kind] = _halves_in(record, group) if group is not None else None
        return self._known[rank, kind]


def _halves_in(record: FlightRecord, group: int) -> _Halves | None:
    """The sends and receives in the group at this position; None where the recorder does not count them, or holds no batch.

    A rank that did nothing behind a batch may have stopped within it.
    """
    issued = record.groups[group].halves
    here = {number for number, call in enumerate(record.calls) if call.group == group and call.point_to_point}
    made = [(seq, call) for seq, call in zip(record.seq, record.call, strict=True) if call in here]
    numbers = sorted(seq for seq, call in made if record.calls[call].op != END_OF_COALESCED)
    behind = record.seq[-1] if made and record.call[-1] in here else None
    last = max((number for number in numbers if number != behind), default=None)
    return _Halves(issued, numbers, last) if issued is not None and last is not None else None

"""Among which ranks a rank sends and receives, and whether its place among them is a part of its own, as in a pipeline."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from operator import eq

from ddpdoctor.analysis.collectives.recorders.call_sequences import END_OF_COALESCED
from ddpdoctor.analysis.hangs.components import final_components
from ddpdoctor.evidence.recorder import FlightRecord, ProcessGroup

ENOUGH_CALLS = 24  # of two ranks in step: fewer may agree by chance
MOST_CIRCLES = 5  # compared of those with the same part in the job, or pairs of a circle
FEWEST_OF_A_CIRCLE = 4  # ranks: of two, either may be at fault
TRANSFERS = frozenset({"send", "recv"})
Step = tuple[str, int, tuple[str, ...]]
"""The label of a group, the number of a call there, and what was called; of a batch its halves in any order."""


@dataclass
class TransferPlaces:
    """For each rank and group the ranks among which it sends and receives there, each asked for once.

    Those are the members of the group. In a group of all ranks, as the default one, sends and receives link some of them alone:
    each of several equal pipelines.
    """

    records: Mapping[int, FlightRecord]
    """The flight recorder of each rank."""
    groups_of: Callable[[int], Mapping[str, ProcessGroup]]
    """Gives the groups of a rank by name, with their members as far as anything tells these."""
    labels_of: Callable[[int], Mapping[str, str]]
    """Gives what each group of a rank is called on all ranks with its part, by name."""
    _linked: dict[str, Mapping[int, tuple[int, ...]]] = field(default_factory=dict)
    _circular: dict[str, bool] = field(default_factory=dict)

    def among(self, rank: int, group: str) -> tuple[int, ...]:
        """The ranks among which this rank sends and receives in its group of this name; empty where nothing tells."""
        members = self.groups_of(rank)[group].ranks or ()
        if len(members) < len(self.records):
            return members
        if group not in self._linked:
            self._linked[group] = self._links(group, members)
        return self._linked[group].get(rank, members)

    def place(self, rank: int, group: str) -> int | None:
        """Its place among these; None where all of them make the same calls, as ranks do that pass data round."""
        ranks, label = self.among(rank, group), self.labels_of(rank)[group]
        if rank not in ranks:
            return None
        if label not in self._circular:
            self._circular[label] = self._is_circular(label)
        return None if self._circular[label] else ranks.index(rank)

    def _links(self, group: str, members: Sequence[int]) -> Mapping[int, tuple[int, ...]]:
        """Which ranks transfers link with each other, where all of them fall into equal parts; else nothing."""
        halves = {*self._halves(group, members)}
        linked: dict[int, set[int]] = defaultdict(set)
        for op, source, target in halves:
            if op == "send" and ("recv", source, target) in halves:
                linked[source].add(target)
                linked[target].add(source)
        parts = [tuple(sorted(part)) for part in final_components(linked)]
        if len({len(part) for part in parts}) != 1 or sum(map(len, parts)) < len(members):
            return {}
        found = {rank: part for part in parts for rank in part}
        crossing = sum(found.get(source) is not found.get(target) for _, source, target in halves)
        return found if crossing < len(parts) else {}

    def _halves(self, group: str, members: Sequence[int]) -> Iterator[tuple[str, int, int]]:
        for record in self.records.values():
            for call in record.calls:
                if call.source is None or call.target is None or record.groups[call.group].name != group:
                    continue
                if max(call.source, call.target) < len(members):
                    yield call.op, members[call.source], members[call.target]

    def _is_circular(self, label: str) -> bool:
        """Whether nearly all pairs of neighbours made the same calls with the same numbers, group by group.

        The first two ranks of each of several circles; of one circle several pairs, the last with the first rank among them.
        """
        circles: dict[tuple[int, ...], None] = {}
        for rank in self.records:
            group = next((name for name, own in self.labels_of(rank).items() if own == label), None)
            if group is not None and len(circles) < MOST_CIRCLES:
                circles[self.among(rank, group)] = None
        pairs = [circle[:2] for circle in circles] if len(circles) > 1 else [*_neighbours(next(iter(circles), ()))]
        alike = [self._in_step(label, *two) for two in pairs if len(two) == 2 and {*two} <= self.records.keys()]
        return len(alike) > 1 and sum(alike) >= max(len(alike) - 1, 2)

    def _in_step(self, label: str, one: int, other: int) -> bool:
        """Whether two ranks made the same calls from the first that both records hold, but for the last quarter at most.

        With sends or receives of groups with this label: what they do in others tells nothing of these.
        """
        mine, theirs = ([*self._steps(rank)] for rank in (one, other))
        starts = ((0, theirs.index(mine[0])) if mine and mine[0] in theirs else None) or (
            (mine.index(theirs[0]), 0) if theirs and theirs[0] in mine else None
        )
        if starts is None:
            return False
        pairs = [*zip(mine[starts[0] :], theirs[starts[1] :], strict=False)]
        same = [step for step, _ in takewhile(lambda pair: eq(*pair), pairs)]
        shown = any(where == label and not TRANSFERS.isdisjoint(ops) for where, _, ops in same)
        return shown and len(same) >= ENOUGH_CALLS and 4 * len(same) >= 3 * len(pairs)

    def _steps(self, rank: int) -> Iterator[Step]:
        record, labels = self.records[rank], self.labels_of(rank)
        batches: dict[tuple[str, int, bool], list[str]] = defaultdict(list)
        for entry, number in enumerate(record.call):
            call = record.calls[number]
            key = labels[record.groups[call.group].name], record.seq[entry], call.point_to_point
            if call.op != END_OF_COALESCED:
                batches[key].append(call.op)
        for (label, seq, _), ops in batches.items():
            yield label, seq, tuple(sorted(ops))


def _neighbours(circle: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The pair of the last and the first rank of a circle, that of the first two, and some others; none of a small one."""
    if len(circle) >= FEWEST_OF_A_CIRCLE:
        yield from (
            (circle[second - 1], circle[second])
            for second in (0, *range(1, 2 * MOST_CIRCLES - 2, 2))
            if second < len(circle)
        )

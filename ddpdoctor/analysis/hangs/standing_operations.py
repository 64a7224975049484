"""Operations that all their ranks have enqueued, with nothing else left to wait for, and that do not end all the same."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile

from ddpdoctor.analysis.hangs.operations import ROOTED, Operation
from ddpdoctor.analysis.hangs.outstanding import Outstanding


@dataclass
class StandingOperations:
    """Tells which of what is outstanding stands, and what stands before it."""

    outstanding: Outstanding
    """What ranks have enqueued and not completed."""

    def stands(self, operation: Operation) -> bool:
        """Whether all members have enqueued it, and before it wait for nothing but sends and receives that have both sides.

        A receive that was posted early keeps nobody from what was enqueued after it. A batch ends as one: a transfer in it does
        not stand while another one lacks its partner, or waits for it behind something else.
        """
        members_known = operation.group is None or operation.group.group_sequences.members_known
        return (
            operation.complete
            and members_known
            and {*operation.members}.isdisjoint(self.outstanding.not_kept)
            and len(operation.members) > 1
            and _all_take_part(operation)
            and all(id(one) in self._posted_on_both_sides for one in self.before(operation))
            and all(id(one) in self._posted_on_both_sides for one in self.of_its_batches(operation))
            and not self._is_doubtful(operation)
        )

    def _is_doubtful(self, operation: Operation) -> bool:
        """Whether what its ranks have issued may not be halves of one transfer, or their batches may lack a partner."""
        return self._is_crossed(operation) or any(True for _ in self.outstanding.may_wait_for(operation))

    def _is_crossed(self, operation: Operation) -> bool:
        """Whether its two ranks issued it and another one of theirs in two orders, and one of them has left a call out.

        Devices take the sends and receives of a pair one by one: what both have issued are not halves of one transfer then.
        """
        if operation.group is not None or (operation.link, operation.members) not in self.outstanding.uneven:
            return False
        one, other = operation.members
        before_one, before_other = (
            {id(each): each for each in takewhile(lambda each: each is not operation, self.outstanding.of_rank[rank])}
            for rank in (one, other)
        )
        mine = [*self.outstanding.of_rank[one], *self.outstanding.of_rank[other]]
        return any(
            each.group is None
            and each.link == operation.link
            and each.members == operation.members
            and {*each.waiting} == {*each.members}
            and (id(each) in before_one) is not (id(each) in before_other)
            and not any(in_one_batch(each, operation, rank) for rank in operation.members)
            for each in mine
            if each is not operation
        )

    def innermost(self, standing: Sequence[Operation]) -> list[Operation]:
        """The one of these that the others wait for, in front of those that end with it because they are of its batches."""
        first = min(
            standing,
            key=lambda one: (
                sum(before.members != one.members for before in self.before(one, batch=False)),
                at_different_turns(one),
            ),
        )
        by_id = {id(one): one for one in standing}
        found = [by_id.pop(id(first))]
        for operation in found:
            found += [by_id.pop(id(one)) for one in self.of_its_batches(operation) if id(one) in by_id]
        return found

    def of_its_batches(self, operation: Operation) -> Iterator[Operation]:
        """The sends and receives that one of its ranks issued in one batch with it: such a batch ends as one."""
        if operation.group is None:
            for rank, call in operation.waiting.items():
                yield from (one for one in self._batches[rank, operation.link, call.seq] if one is not operation)

    def with_batches(self, operation: Operation) -> Iterator[int]:
        """Its ranks for which it ends with others of one batch."""
        if operation.group is None:
            for rank, call in operation.waiting.items():
                if len(self._batches[rank, operation.link, call.seq]) > 1:
                    yield rank

    @cached_property
    def _batches(self) -> dict[tuple[int, str, int], list[Operation]]:
        """The sends and receives of each rank, group and number of a batch."""
        found: dict[tuple[int, str, int], list[Operation]] = defaultdict(list)
        for one in self.outstanding.operations:
            for rank, call in one.waiting.items() if one.group is None else ():
                found[rank, one.link, call.seq].append(one)
        return found

    def before(self, operation: Operation, *, batch: bool = True) -> Iterator[Operation]:
        """What its members have waited in for longer; without `batch`, not what they issued as one batch with it."""
        for rank in operation.waiting:
            for before in takewhile(lambda one: one is not operation, self.outstanding.of_rank[rank]):
                if batch or not in_one_batch(before, operation, rank):
                    yield before

    @cached_property
    def _posted_on_both_sides(self) -> set[int]:
        """The sends and receives that have both sides, with nothing else before them on either; all of their batches."""
        found = {
            id(operation): operation
            for operation in self.outstanding.operations
            if operation.group is None
            and operation.complete
            and {*operation.waiting} == {*operation.members}
            and not self._is_doubtful(operation)
        }
        while True:
            blocked = [
                key
                for key, one in found.items()
                if any(id(other) not in found for other in (*self.before(one), *self.of_its_batches(one)))
            ]
            if not blocked:
                return {*found}
            for key in blocked:
                del found[key]


def _all_take_part(operation: Operation) -> bool:
    """Whether all members wait in it, apart from a root or the like that is through with its part."""
    through = {*operation.members} - operation.waiting.keys()
    group = operation.group
    if not through or group is None or len(operation.waiting) < 2:
        return not through
    return all(call.op in ROOTED for call in operation.waiting.values()) and not any(
        rank in group.open and group.open[rank].seq <= operation.seq for rank in through
    )


def at_different_turns(operation: Operation) -> bool:
    """Whether it is the nth batch of one rank and another one of its partner: these may not be halves of one transfer."""
    return len({call.seq for call in operation.waiting.values()}) > 1


def in_one_batch(one: Operation, other: Operation, rank: int) -> bool:
    """Whether the rank issued these two, sends or receives, in one batch."""
    same = one.group is None and other.group is None and one.link == other.link
    return same and one.waiting[rank].seq == other.waiting[rank].seq


def in_all_transfers(operations: Sequence[Operation]) -> list[int]:
    """Of sends and receives with several partners, the ranks that take part in all of those that share a rank.

    Nobody where one of these is a collective, or a send or receive of other ranks, or where a send and a receive may be of
    different transfers.
    """
    if any(one.assumed for one in operations):
        return []
    found: set[int] = set()
    for operation in operations:
        joined = [{*one.members} for one in operations if not {*one.members}.isdisjoint(operation.members)]
        common = set.intersection(*joined)
        if operation.group is not None or len(set.union(*joined)) < 3 or len(common) != 1:
            return []
        found |= common
    return sorted(found)

"""A send or receive that a rank makes with another partner than ranks with its part in the job, and who waits for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import NamedTuple

from ddpdoctor.analysis.collectives.programs.program_comparison import MOST_COMPARED, ProgramComparison
from ddpdoctor.analysis.collectives.recorders.call_sequences import users_stack
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import Call, ProcessGroup

OPPOSITE = {"send": "recv", "recv": "send"}


class Half(NamedTuple):
    """One side of a transfer."""

    op: str
    """`send` or `recv`."""
    distance: int
    """How many places behind the rank its partner is, round in the circle of those among which it sends and receives; of a
    partner outside of these, its rank and their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherPartner:
    """What a rank called, and what ranks with its part in the job call there; ranks are global."""

    rank: int
    """The rank that deviates."""
    place: Frame | None
    """The line of the call."""
    op: str | None
    """`send` or `recv`; None where it left out a half of a batch, and called nothing in its place."""
    partner: int | None
    """The rank that it sends to or receives from; None where `op` is."""
    expected_op: str
    """`send` or `recv`, as ranks with its part call there."""
    expected_partner: int
    """The rank that it should have sent to or received from."""
    agreed: bool
    """Whether two ranks with its part or more do the same: of one alone, either may be wrong."""
    awaited: bool = False
    """Whether the expected partner waits for this rank."""
    by_part: bool = True
    """Whether ranks with its part tell what is expected, and not only who names whom."""


@dataclass
class TransferPartners:
    """The partners of all sends and receives of ranks; each record is read once, when it is asked for."""

    programs: ProgramComparison
    """The records of all ranks, with who has which part in the job."""
    _halves: dict[int, Mapping[str, Mapping[int, Mapping[Half, int]]]] = field(default_factory=dict)

    def other_partner(self, rank: int, entry: int) -> OtherPartner | None:
        """The first call, up to this one, that the rank makes with another partner than all ranks with its part.

        Where no other rank has its part, those with its place in groups of this kind tell. Then, and where one rank alone has it,
        the rank that should have been the partner has to be asked whether it waits: a program may deviate for a reason.
        """
        record = self.programs.records[rank]
        group = record.groups[record.calls[record.call[entry]].group]
        label = self.programs.label(rank, group.name)
        if label is None:
            return None
        own = self._of(rank).get(label, {})
        with_its_part = [*islice(self.programs.like(rank), MOST_COMPARED)]
        others = with_its_part or islice(self.programs.at_its_place(rank, group.name), MOST_COMPARED)
        like = [self._of(other).get(label, {}) for other in others]
        for number in sorted(number for number in own if number <= record.seq[entry]):
            all_known = [frozenset(one[number]) for one in like if number in one]
            known, made = {*all_known}, own[number]
            if len(known) == 1 and (expected := known.pop()) != made.keys():
                instead, lacking = made.keys() - expected, expected - made.keys()
                if len(instead) > 1 or len(lacking) != 1:
                    return None
                half = next(iter(instead), None)
                stack = users_stack(record, record.stack[made[half] if half is not None else min(made.values())])
                told = _told(rank, stack, half, next(iter(lacking)), self.programs.places.among(rank, group.name))
                return replace(told, agreed=bool(with_its_part) and len(all_known) > 1)
        return None

    def _of(self, rank: int) -> Mapping[str, Mapping[int, Mapping[Half, int]]]:
        """By label of a group and number of a call: the halves that the rank issued by it, with their entries."""
        if rank not in self._halves:
            found: dict[str, dict[int, dict[Half, int]]] = defaultdict(lambda: defaultdict(dict))
            for entry, label, half in self._issued(rank):
                found[label][self.programs.records[rank].seq[entry]][half] = entry
            self._halves[rank] = found
        return self._halves[rank]

    def _issued(self, rank: int) -> Iterator[tuple[int, str, Half]]:
        record = self.programs.records[rank]
        kinds = {
            number: (label, Half(call.op, self._distance(rank, record.groups[call.group], call)))
            for number, call in enumerate(record.calls)
            if call.source is not None and call.target is not None and call.op in OPPOSITE
            if (label := self.programs.label(rank, record.groups[call.group].name)) is not None
        }
        for entry, number in enumerate(record.call):
            if number in kinds:
                yield entry, *kinds[number]

    def _distance(self, rank: int, group: ProcessGroup, call: Call) -> int:
        place = (call.target if call.op == "send" else call.source) or 0
        partner = group.ranks[place] if group.ranks is not None and place < len(group.ranks) else place
        circle = self.programs.places.among(rank, group.name)
        if {rank, partner} <= {*circle}:
            return (circle.index(partner) - circle.index(rank)) % len(circle)
        return len(circle) + partner


def _told(
    rank: int, stack: Sequence[Frame], instead: Half | None, lacking: Half, circle: Sequence[int]
) -> OtherPartner:
    def partner(half: Half) -> int:
        if half.distance < len(circle):
            return circle[(circle.index(rank) + half.distance) % len(circle)]
        return half.distance - len(circle)

    return OtherPartner(
        rank=rank,
        place=stack[-1] if stack else None,
        op=instead.op if instead is not None else None,
        partner=partner(instead) if instead is not None else None,
        expected_op=lacking.op,
        expected_partner=partner(lacking),
        agreed=False,
    )

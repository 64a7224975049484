"""The rank that names a partner which exchanges with other ranks alone, while a third rank waits for it: by who names whom."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from ddpdoctor.analysis.collectives.transfers.other_partners import OPPOSITE
from ddpdoctor.evidence.recorder import FlightRecord


class Waiting(NamedTuple):
    """A send or receive whose partner has not made its half."""

    rank: int
    """The rank that waits."""
    op: str
    """`send` or `recv`."""
    partner: int
    """The rank that it sends to, or receives from."""


def misnamed_partner(waiting: Sequence[Waiting], records: Mapping[int, FlightRecord]) -> tuple[Waiting, int] | None:
    """The one half whose rank named the wrong partner, and the rank that waits for it there.

    One wrong name explains two halves without a partner: that of the rank itself, and that of the rank that it should have named.
    Its partner has only matched halves, with others, and never names it. All other ranks name each other. Incomplete records
    tell nothing of that.
    """
    if any(record.lost for record in records.values()):
        return None
    named = {rank: {*_partners(record)} for rank, record in records.items()}
    asking = [(one, [*_instead(one, waiting, named)]) for one in waiting if one.rank not in named.get(one.partner, ())]
    explained = [(one, ranks[0]) for one, ranks in asking if len(ranks) == 1]
    return explained[0] if len({one.rank for one, _ in explained}) == 1 else None


def _instead(one: Waiting, waiting: Sequence[Waiting], named: Mapping[int, Collection[int]]) -> Iterator[int]:
    """The ranks that wait for this one in the other half, where its partner lacks nothing and nobody else is named in vain."""
    if not named.get(one.partner) or any(other.rank == one.partner for other in waiting):
        return
    asking = {other.rank for other in waiting if (other.partner, other.op) == (one.rank, OPPOSITE[one.op])}
    in_vain = {
        (rank, other) for rank, partners in named.items() for other in partners if rank not in named.get(other, ())
    }
    expected = {(one.rank, one.partner), *((rank, one.rank) for rank in asking)}
    if in_vain == expected:
        yield from sorted(asking)


def _partners(record: FlightRecord) -> Iterator[int]:
    """The ranks that this one sends to and receives from."""
    for call in record.calls:
        place = call.target if call.op == "send" else call.source
        if call.op in OPPOSITE and place is not None:
            members = record.groups[call.group].ranks
            yield members[place] if members is not None and place < len(members) else place

"""The rank that gave a send or receive another tag than all others gave theirs at the same point of one program."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.collectives.recorders.agents_transfers import RECEIVES, SENDS
from ddpdoctor.analysis.collectives.transfers.p2p_matching import Unmatched
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls

LEAST_RANKS = 3  # two of which agree
LEAST_ALIKE = 4  # calls before, whose tags were the same on all ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherTag:
    """The first call in which one rank's tag differs from that of all others."""

    rank: int
    """The rank that is alone with its tag."""
    call: CollectiveCall
    """Its call."""
    expected: int
    """The tag that all others gave."""
    others: tuple[int, ...]
    """These ranks."""

    def leaves(self, one: Unmatched) -> bool:
        """Whether this send or receive has no partner because of that tag."""
        return (one.partner, one.tag) == (self.rank, self.expected) or (one.rank, one.tag) == (self.rank, self.call.tag)


def other_tag(calls: PerRank[CollectiveCalls]) -> OtherTag | None:
    """Of ranks that made the same sends and receives from the same lines; None where no rank is alone, or all tags agree.

    Where the first tags differ already, ranks may give tags of their own, or their records begin at different calls.
    """
    made = {entry.rank: [call for call in entry.value.calls if call.op in (*SENDS, *RECEIVES)] for entry in calls}
    if len(made) < LEAST_RANKS:
        return None
    for number, together in enumerate(zip(*made.values(), strict=False)):
        if len({(call.op, call.place) for call in together}) > 1:
            return None
        at = dict(zip(made, together, strict=True))
        tags = {rank: call.tag for rank, call in at.items()}
        if len({*tags.values()}) > 1:
            sides = vote(tags)
            if number < LEAST_ALIKE or sides.tied or len(sides.minority) > 1 or len(sides.sides) > 2:
                return None
            (rank,), others = sides.minority, sides.sides[0]
            return OtherTag(rank=rank, call=at[rank], expected=tags[others[0]], others=others)
    return None

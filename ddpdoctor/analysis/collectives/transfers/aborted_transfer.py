"""The send that a rank was about to receive when gloo aborted it, by what the agents of both ranks recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import dropwhile

from ddpdoctor.analysis.collectives.recorders.agents_transfers import RECEIVES, SENDS
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransfer:
    """A receive of a rank that gloo aborted, and the send whose size it did not expect."""

    rank: int
    """The rank that received."""
    partner: int
    """The rank that sent."""
    sent: CollectiveCall
    """The last send of the partner to the rank."""


def aborted_transfer(rank: int | None, calls: Mapping[int, CollectiveCalls]) -> AbortedTransfer | None:
    """The transfer that the rank waited in, or of the batch that it waited in, where it received from one rank alone."""
    if rank is None or rank not in calls:
        return None
    batch = [*dropwhile(lambda call: call.returned, calls[rank].calls)]
    partners = {call.peer for call in batch if call.op in RECEIVES}
    if len(partners) != 1 or any(call.op not in (*SENDS, *RECEIVES) for call in batch):
        return None
    (partner,) = partners
    if partner is None or partner not in calls:
        return None
    sent = [call for call in calls[partner].calls if call.op in SENDS and call.peer == rank]
    return AbortedTransfer(rank=rank, partner=partner, sent=sent[-1]) if sent else None

"""How ranks left their loop or passed over a batch, in words and lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath

from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.ways_out import MOST_JUMPS, note_of, past_a_turn
from ddpdoctor.model import Where, group_ranks, verb

MIXED = "since then gradients are averaged with those of other steps"
LENGTHS = "give every rank the same number of batches (DistributedSampler with drop_last), or train under `with Join([model]):`"


def sentence(departure: LoopDeparture) -> str:
    """`rank 1 left its loop after drawing 20 of 32 batches, and rank 0 went on to batch 21`."""
    ranks, others = group_ranks(departure.ranks), group_ranks(departure.others)
    match departure.how:
        case DepartureKind.LEFT:
            of = f" of {departure.lengths[departure.ranks[0]]}" if departure.ranks[0] in departure.lengths else ""
            went_on = f"; {others} went on to batch {departure.batches + 1}" if departure.batches is not None else ""
            return f"{ranks} left {_its(departure)} loop after drawing {departure.batches}{of} batches{went_on}"
        case DepartureKind.SHORT:
            return f"a pass over the data has {_lengths(departure)}"
        case DepartureKind.ENDED if departure.batches is not None:
            return f"{ranks} ended {_its(departure)} loop after {departure.batches} batches, and {others} drew a further one"
        case DepartureKind.ENDED:
            return f"{ranks} ended {_its(departure)} loop after forward {departure.iteration}, and {others} made a further one"
        case DepartureKind.SKIPPED:
            before = f" before forward {departure.forwards + 1}" if departure.forwards is not None else ""
            return f"{ranks} passed over a batch{before}, and {others} did not"
        case DepartureKind.IRREGULAR:
            made, usual = (departure.lengths[side[0]] for side in (departure.ranks, departure.others))
            return f"{ranks} made {_collectives(made)} with forward {departure.forwards}, where {others} made {usual} as usual"


def _its(departure: LoopDeparture) -> str:
    return verb(departure.ranks, "its", "their")


def _collectives(count: int) -> str:
    return f"{count or 'no'} collective{'' if count == 1 else 's'}"


def _lengths(departure: LoopDeparture) -> str:
    """`7 batches on rank 1 and 10 on rank 0`."""
    by_length = grouped(
        (departure.lengths[rank], rank) for rank in (*departure.ranks, *departure.others) if rank in departure.lengths
    )
    (first, ranks), *rest = by_length.items()
    return " and ".join(
        [f"{first} batches on {group_ranks(ranks)}", *(f"{length} on {group_ranks(others)}" for length, others in rest)]
    )


def skips(departure: LoopDeparture) -> list[str]:
    """The `continue`s, as `train.py:58`, by which a rank that reached the end of its loop early may have passed over a turn.

    None where batches were counted: these tell how many each rank drew.
    """
    if departure.how is not DepartureKind.ENDED or departure.frame is None or departure.loop is None:
        return []
    return [f"{PurePath(departure.frame.file).name}:{line}" for line in departure.loop.skips]


def where(departure: LoopDeparture) -> list[Where]:
    """The statements by which the ranks may have left the loop or its turn, or else the head of the loop."""
    frame, loop = departure.frame, departure.loop
    if frame is None or loop is None:
        return []
    ends = [*past_a_turn(departure.exits, departure.ranks)]
    if ends and not departure.jumps:
        return ends
    shown: Sequence[tuple[int, str]] = [(jump.line, note_of(jump)) for jump in departure.jumps[:MOST_JUMPS]]
    if not shown and departure.how is DepartureKind.IRREGULAR:
        shown = [(frame.line, f"near forward {departure.forwards}")]
    elif not shown:
        shown = [(loop.line, f"the loop `{loop.head}`")]
    return [Where.at(frame.at_line(line), rank=rank, note=note) for line, note in shown for rank in departure.ranks]

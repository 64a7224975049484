"""Whether rank 0 has put other weights in place after its last step: those of an average, for an evaluation or a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.replicas import ValueDifference
from ddpdoctor.evidence.training_trace import Left, Table, Track

MOST_PUT_IN_PLACE = 0.9  # of the trained parameters


class LastWritten(Enum):
    """When the weights became different that differ at the end."""

    IN_TRAINING = "in training"
    AFTER_TRAINING = "after training"
    UNKNOWN = "unknown"
    """Writes through `.data` are not counted."""


def last_written(
    values: Sequence[ValueDifference], tables: Mapping[int, Table], tracks: Mapping[int, Track], ends: Sequence[Left]
) -> LastWritten:
    """When ranks became different in `values`, at the end of the process, where nobody looked right after the last step."""
    if not _is_all_of_rank_0(values, tables, tracks):
        return LastWritten.IN_TRAINING
    later = {rank: end.later for rank, end in zip(tracks, ends, strict=True)}
    in_step = len({end.writes for end in ends}) == 1
    if None in later.values() or (in_step and not any(later.values())):
        return LastWritten.UNKNOWN
    if in_step and all(bool(writes) == (rank == 0) for rank, writes in later.items()):
        return LastWritten.AFTER_TRAINING
    return LastWritten.UNKNOWN if later[0] else LastWritten.IN_TRAINING


def _is_all_of_rank_0(
    values: Sequence[ValueDifference], tables: Mapping[int, Table], tracks: Mapping[int, Track]
) -> bool:
    """Whether rank 0 alone holds other weights than its peers, which are alike, and nearly all of them are others."""
    other = max(tables)
    start = tracks[other].tables.get(tracks[other].start or "")
    at_start = start.digests if start is not None else {}
    trained = [name for name, digest in tables[other].digests.items() if at_start.get(name) != digest]
    alone = all(len(value.sides) == 2 and (0,) in [side.ranks for side in value.sides] for value in values)
    return alone and len(values) >= max(2.0, MOST_PUT_IN_PLACE * len(trained))


def last_states(tracks: Mapping[int, Track], last: Mapping[int, StepSeen]) -> dict[int, Mapping[str, str]]:
    """The optimizer's state of each rank at the end, where it must be equal; empty where it need not be.

    It must be where it was equal on all ranks before the audited step `last`, nobody has shadowed steps inside `Join`, all were
    looked at in the same moment, nobody has written it since the last step, and rank 0 is not alone in having nearly all of it
    otherwise: it may have loaded another one, for a checkpoint or a test.
    """
    ends = {rank: track.left_state for rank, track in tracks.items() if track.left_state is not None}
    before = [one.state for one in last.values()]
    known = bool(before) and all(before) and all(state == before[0] for state in before)
    if not known or len(ends) < len(tracks) or any(end.shadowed or end.later for end in ends.values()):
        return {}
    names = [end.digests.keys() for end in ends.values()]
    if len({(end.step, end.moment) for end in ends.values()}) > 1 or any(one != names[0] for one in names):
        return {}
    others = [end.digests for rank, end in ends.items() if rank]
    if all(one == others[0] for one in others) and 0 in ends:
        own = ends[0].digests
        if sum(own[name] != digest for name, digest in others[0].items()) >= MOST_PUT_IN_PLACE * len(own):
            return {}
    return {rank: end.digests for rank, end in ends.items()}

"""Since when one rank's collectives are paired with the wrong ones of its peers, although they look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.recorders.call_sequences import UNKNOWN, CallSequence, GroupSequences

LONGEST = 64  # calls by which a rank can be ahead or behind and still be recognised
AT_LEAST = 2  # calls that must fall into place again where nothing was amiss before the mismatch; else one will do
TRIED = 200  # places from which ranks may differ: those where each rank has a line of its own are none


@dataclass(frozen=True, slots=True, kw_only=True)
class SequenceOffset:
    """Since when a rank's calls are its peers' calls moved by a constant."""

    seq: int
    """The sequence number of the first call that is moved."""
    extra: int
    """How many calls more than its peers the rank has made; below 0 how many fewer."""


def sequence_offset_of(
    group_sequences: GroupSequences, minority: int, majority: Sequence[int], end: int
) -> SequenceOffset | None:
    """The shift of rank `minority` against the ranks `majority` before call `end`, by the lines that the calls came from.

    None where the stacks were not recorded, where the peers do not agree among themselves, or where nothing falls into
    place: then the ranks were in step until `end`.
    """
    sequences = [sequence for rank in majority if (sequence := group_sequences.sequence(rank)) is not None]
    own = group_sequences.sequence(minority)
    if own is None or not sequences:
        return None
    first = max(sequence.first for sequence in (own, *sequences))
    theirs = {_sites(sequence, first) for sequence in sequences}
    mine = _sites(own, first)
    shortest = min(theirs, key=len)
    if any(sites[: len(shortest)] != shortest for sites in theirs):
        return None
    limit = min(len(mine), len(shortest), end - first + 1)
    stack_desync = [place for place in range(limit) if mine[place] != shortest[place]]
    if any(UNKNOWN in (mine[place], shortest[place]) for place in stack_desync):
        return None
    return next(
        (offset for start in stack_desync[:TRIED] if (offset := _from(mine, shortest, start, first, end))), None
    )


def _from(mine: Sequence[int], theirs: Sequence[int], start: int, first: int, end: int) -> SequenceOffset | None:
    least = 1 if first + start < end else AT_LEAST
    for extra in range(1, LONGEST + 1):
        if _falls_into_place(mine[start + extra :], theirs[start:], least):
            return SequenceOffset(seq=first + start, extra=extra)
        if _falls_into_place(mine[start:], theirs[start + extra :], least):
            return SequenceOffset(seq=first + start, extra=-extra)
    return None


def _sites(sequence: CallSequence, first: int) -> tuple[int, ...]:
    return sequence.sites[first - sequence.first :]


def _falls_into_place(mine: Sequence[int], theirs: Sequence[int], least: int) -> bool:
    length = min(len(mine), len(theirs))
    return length >= least and mine[:length] == theirs[:length]


def has_constant_period(sequence: CallSequence, seq: int) -> bool:
    """Whether call `seq` came after as many calls since the last one from its line as that one did after the one before.

    False where the line is not known, or was not twice before at work: once tells no habit.
    """
    place = seq - sequence.first
    if not 0 <= place < len(sequence.sites) or sequence.sites[place] == UNKNOWN:
        return False
    turns = [earlier for earlier in range(place + 1) if sequence.sites[earlier] == sequence.sites[place]]
    return len(turns) > 2 and turns[-1] - turns[-2] == turns[-2] - turns[-3]

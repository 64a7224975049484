"""Since when one rank's collectives are paired with the wrong ones of its peers, although they look alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.tracks import UNKNOWN, Lane, Track

LONGEST = 64  # calls by which a rank can be ahead or behind and still be recognised
AT_LEAST = 2  # calls that must fall into place again where nothing was amiss before the clash; else one will do
TRIED = 200  # places from which ranks may differ: those where each rank has a line of its own are none


@dataclass(frozen=True, slots=True, kw_only=True)
class Shift:
    """From call `seq` on, the rank's calls are its peers' calls moved by `extra`: above 0 it made more, below 0 fewer."""

    seq: int
    extra: int


def shift_of(lane: Lane, odd: int, usual: Sequence[int], end: int) -> Shift | None:
    """The shift of rank `odd` against the ranks `usual` before call `end`, by the lines that the calls came from.

    None where the stacks were not recorded, where the peers do not agree among themselves, or where nothing falls into
    place: then the ranks were in step until `end`.
    """
    tracks = [track for rank in usual if (track := lane.track(rank)) is not None]
    own = lane.track(odd)
    if own is None or not tracks:
        return None
    first = max(track.first for track in (own, *tracks))
    theirs = {_sites(track, first) for track in tracks}
    mine = _sites(own, first)
    shortest = min(theirs, key=len)
    if any(sites[: len(shortest)] != shortest for sites in theirs):
        return None
    limit = min(len(mine), len(shortest), end - first + 1)
    apart = [place for place in range(limit) if mine[place] != shortest[place]]
    if any(UNKNOWN in (mine[place], shortest[place]) for place in apart):
        return None
    return next((shift for start in apart[:TRIED] if (shift := _from(mine, shortest, start, first, end))), None)


def _from(mine: Sequence[int], theirs: Sequence[int], start: int, first: int, end: int) -> Shift | None:
    least = 1 if first + start < end else AT_LEAST
    for extra in range(1, LONGEST + 1):
        if _falls_into_place(mine[start + extra :], theirs[start:], least):
            return Shift(seq=first + start, extra=extra)
        if _falls_into_place(mine[start:], theirs[start + extra :], least):
            return Shift(seq=first + start, extra=-extra)
    return None


def _sites(track: Track, first: int) -> tuple[int, ...]:
    return track.sites[first - track.first :]


def _falls_into_place(mine: Sequence[int], theirs: Sequence[int], least: int) -> bool:
    length = min(len(mine), len(theirs))
    return length >= least and mine[:length] == theirs[:length]

"""Whether a rank came to a call as it always did, so that not it but another one has changed its ways."""

from __future__ import annotations

from ddpdoctor.analysis.tracks import UNKNOWN, Track


def came_as_always(track: Track, seq: int) -> bool:
    """Whether call `seq` came after as many calls since the last one from its line as that one did after the one before.

    False where the line is not known, or was not twice before at work: once tells no habit.
    """
    place = seq - track.first
    if not 0 <= place < len(track.sites) or track.sites[place] == UNKNOWN:
        return False
    turns = [earlier for earlier in range(place + 1) if track.sites[earlier] == track.sites[place]]
    return len(turns) > 2 and turns[-1] - turns[-2] == turns[-2] - turns[-3]

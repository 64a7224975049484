"""How many sends and receives a rank has issued in each group, by NCCL's count of operations: its ring buffer may have lost some.

PyTorch numbers collectives, and batches of sends and receives; `op_id` counts each send and receive of a batch as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress, count, pairwise
from typing import Any

from ddpdoctor.evidence.recorder import Call
from ddpdoctor.ranks.fr_older_versions import END_OF_BATCH
from ddpdoctor.ranks.fr_repeats import Entries


def issued_halves(
    decoded: Sequence[Mapping[str, Any]],
    ring: Entries | None,
    calls: Sequence[Call],
    call: Sequence[int],
    seq: Sequence[int],
    collective: Sequence[int],
) -> dict[int, int]:
    """By position of a group how many sends and receives the rank had issued in it by its last entry.

    `call`, `seq` and `collective` have the call of each entry, its number, and that of the last collective of its group.
    """
    found: dict[int, int] = {}
    groups = {one.group for one in calls if one.point_to_point}
    places = range(len(decoded)) if ring is None or not groups else _first_places(ring)
    for place, entry in zip(reversed(places), reversed(decoded), strict=True) if groups else ():
        group, issued = calls[call[place]].group, entry.get("op_id")
        if group in groups and isinstance(issued, int):
            groups.remove(group)
            halves = {n for n, one in enumerate(calls) if one.group == group and one.point_to_point}
            later = [*compress(count(place), (one in halves for one in call[place:]))]
            if all(after - before <= 1 for before, after in pairwise(seq[one] for one in later)):
                ends = (calls[call[one]].op == END_OF_BATCH for one in later)
                behind = sum(one > place and not end for one, end in zip(later, ends, strict=True))
                found[group] = issued - collective[place] + behind
    return found


def _first_places(ring: Entries) -> list[int]:
    """The place of each decoded entry among all entries."""
    places: dict[int, int] = {}
    for place, decoded in enumerate(ring.decoded_as):
        places.setdefault(decoded, place)
    return [places[number] for number in range(len(ring.decoded))]

"""Which ranks hold replicas of each other, where wrappers have process groups of their own: the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.model import SkipCheck

T = TypeVar("T")


def replica_groups(tracks: Mapping[int, Track]) -> list[dict[int, Track]]:
    """The tracks by group of replicas, in order of their lowest rank; ranks that reduce among all are one group.

    All tracks are one group where members of a process group do not agree on its members.
    """
    groups: dict[frozenset[int], dict[int, Track]] = {}
    for rank, track in sorted(tracks.items()):
        members = frozenset() if track.replicas is None else track.replicas.intersection(tracks)
        groups.setdefault(members, {})[rank] = track
    if any(members and members != group.keys() for members, group in groups.items()):
        return [dict(tracks)]
    return [*groups.values()]


def of_each_group(tracks: Mapping[int, Track], derive: Callable[[Mapping[int, Track]], T]) -> list[T]:
    """What `derive` makes of each group of at least two replicas, or of all ranks where they are one group.

    Raises:
        SkipCheck: no group has two ranks, or `derive` skips every group.
    """
    groups = replica_groups(tracks)
    if len(groups) == 1:
        return [derive(groups[0])]
    found: list[T] = []
    skipped: list[SkipCheck] = []
    for group in groups:
        if len(group) > 1:
            try:
                found.append(derive(group))
            except SkipCheck as reason:
                skipped.append(reason)
    if not found:
        raise (
            skipped[0] if skipped else SkipCheck("no two ranks hold replicas: each wrapper's process group is one rank")
        )
    return found

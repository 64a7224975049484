"""What a rank's process groups are called on all ranks with the same part in the job."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection

from ddpdoctor.evidence.recorder import ProcessGroup

NAMED = "named"  # begins the label of a group of which only its name is known, which no other rank may have


def labels_of(groups: Collection[ProcessGroup]) -> dict[str, str]:
    """For each of a rank's groups, by name, what it is called on all ranks with the same part in the job.

    Its description. Of several with one description, or without, its size and the distance of its members tell them
    apart, and else the order in which they were made.
    """
    by_label: dict[str, list[ProcessGroup]] = defaultdict(list)
    described = Counter(group.description for group in groups)
    for group in groups:
        by_label[_label(group, alone=described[group.description] == 1)].append(group)
    return {
        group.name: f"{label} number {number}" if number else label
        for label, same in by_label.items()
        for number, group in enumerate(sorted(same, key=_made_as))
    }


def _label(group: ProcessGroup, *, alone: bool) -> str:
    if group.description and alone:
        return group.description
    if not group.description and group.number is not None:
        return f"number {group.number}"
    if group.ranks and len(group.ranks) > 1:
        return f"{group.description} {len(group.ranks)} by {group.ranks[1] - group.ranks[0]}"
    return group.description or f"{NAMED} {group.name}"


def _made_as(group: ProcessGroup) -> tuple[int, int, str]:
    """Names that torch gives are numbers, counted as groups are made."""
    return (group.number or 0, len(group.name), group.name)

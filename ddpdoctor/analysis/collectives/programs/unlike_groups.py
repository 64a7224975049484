"""The rank that makes a call in another process group than all other ranks do at the same line, or than it did itself before."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from ddpdoctor.analysis.collectives.recorders.call_sequences import program_stack
from ddpdoctor.analysis.collectives.recorders.timeline import IssuedCall, Timeline
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.recorder import FlightRecord

MOST_PROGRAMS = 4  # each is sought in the records of all ranks
LEAST_RANKS = 3  # of two, either may be in the wrong group


def rank_in_another_group(timeline: Timeline, waits: Mapping[int, IssuedCall]) -> int | None:
    """Of ranks that wait, the only one whose group is none of those that the other ranks use there.

    It is a member of these groups, or has always used another one there, in which another rank waits for it now. A line at
    which other ranks use several groups tells nothing: a loop over groups, or a helper that gets one. Ranks at many lines are
    not compared.
    """
    programs = {issued.program for issued in waits.values() if issued.program}
    if len(programs) > MOST_PROGRAMS:
        return None
    used = {program: _groups_by_rank(timeline, program) for program in programs}
    found = [
        rank
        for rank, issued in waits.items()
        if issued.program and _is_in_another(rank, issued, timeline, waits, used[issued.program])
    ]
    return found[0] if len(found) == 1 else None


def _is_in_another(
    rank: int,
    issued: IssuedCall,
    timeline: Timeline,
    waits: Mapping[int, IssuedCall],
    used: Mapping[int, Collection[str]],
) -> bool:
    groups = {group.group_sequences.group.name: group for group in timeline.groups}
    others = {name for other, names in used.items() if other != rank for name in names}
    several = any(len(names) > 1 for other, names in used.items() if other != rank)
    if len(used) < LEAST_RANKS or several or not {*others, *used[rank]} <= groups.keys():
        return False
    alone = all(groups[name].name != issued.group for name in others)
    before = [groups[name].name for name in used[rank] if groups[name].name != issued.group]
    if before:
        there = (one for one in waits.values() if one.program == issued.program)
        return alone and len(before) == 1 and any(one.group == before[0] for one in there)
    return alone and all(rank in groups[name].members for name in others)


def _groups_by_rank(timeline: Timeline, program: tuple[Frame, ...]) -> dict[int, Collection[str]]:
    """By rank, the groups in which it made calls at this place of the program; without ranks that made none."""
    found = {rank: {*_groups_at(record, program)} for rank, record in timeline.call_index.records.items()}
    return {rank: names for rank, names in found.items() if names}


def _groups_at(record: FlightRecord, program: tuple[Frame, ...]) -> Iterator[str]:
    stacks = {number for number in range(len(record.stacks)) if program_stack(record, number) == program}
    for call, stack in {*zip(record.call, record.stack, strict=True)}:
        if stack in stacks:
            yield record.groups[record.calls[call].group].name

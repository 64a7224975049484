"""Ranks that wait for others and whose hosts have halted besides: their like enqueued more when no more of theirs had ended."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from itertools import islice

from ddpdoctor.analysis.collectives.programs.program_comparison import ASKED_OF_A_SIDE, ProgramComparison
from ddpdoctor.analysis.collectives.programs.rank_program import CallKind
from ddpdoctor.analysis.hangs.outstanding import Outstanding


def halted_hosts(programs: ProgramComparison, outstanding: Outstanding, besides: Collection[int]) -> Iterator[int]:
    """The ranks that others wait for, and whose hosts have no reason to be no further; none of those `besides`.

    A host stops only for what its device has not ended. A rank with the same part in the job that has ended no more, and has
    enqueued more, shows that the program does not stop here.
    """
    awaited = {rank for operation in outstanding.operations for rank in operation.absent}
    for rank in sorted(awaited.intersection(outstanding.of_rank) - {*besides}):
        likes = (like for like in islice(programs.like(rank), ASKED_OF_A_SIDE) if like not in besides)
        if any(_went_on(programs, outstanding, rank, like) for like in likes):
            yield rank


def _went_on(programs: ProgramComparison, outstanding: Outstanding, rank: int, like: int) -> bool:
    """Whether `like` has enqueued more calls than the rank in one group, in no group fewer, and has ended more in none."""
    mine, theirs = programs.program(rank), programs.program(like)
    waits, other_waits = (_waits(programs, outstanding, one) for one in (rank, like))
    ahead = False
    for kind in mine.kinds() & theirs.kinds():
        made, other_made = mine.called(kind), theirs.called(kind)
        if other_made < made or other_waits.get(kind, other_made + 1) > waits.get(kind, made + 1):
            return False
        ahead = ahead or other_made > made
    return ahead


def _waits(programs: ProgramComparison, outstanding: Outstanding, rank: int) -> Mapping[CallKind, int]:
    """By kind the number of the oldest call that this rank has enqueued and that has not ended."""
    found: dict[CallKind, int] = {}
    for operation in outstanding.of_rank.get(rank, ()):
        between = operation.group is None
        name = operation.link if operation.group is None else operation.group.group_sequences.group.name
        kind = programs.kind(rank, name, point_to_point=between)
        if kind is not None:
            found[kind] = min(found.get(kind, operation.waiting[rank].seq), operation.waiting[rank].seq)
    return found

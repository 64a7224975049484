"""The error that a rank was handling as it made the call in which it diverged from its peers."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.collectives.groups.desync import Desync
from ddpdoctor.analysis.crashes.failure import error_text
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Handled
from ddpdoctor.model import Where

REMEDY = (
    "mend the error that this rank was handling; in an `except`, a `finally` or an `__exit__` call no collective that the other "
    "ranks do not call too"
)


def errors_of(calls: PerRank[CollectiveCalls] | None, desync: Desync) -> list[tuple[int, Handled]]:
    """The errors that ranks at fault were handling when they diverged from the others, each with its rank."""
    return [
        (entry.rank, one)
        for entry in calls or ()
        for one in entry.value.handled
        if entry.rank in desync.culprits
        and entry.rank in desync.issued
        and (one.group, one.seq) == (desync.group.group_sequences.group.name, desync.issued[entry.rank].seq)
    ]


def errors_at_the_end(calls: PerRank[CollectiveCalls] | None) -> list[tuple[int, Handled]]:
    """The errors that ranks were handling at the last call that their own code made, each with its rank."""
    return [
        (entry.rank, one)
        for entry in calls or ()
        for one in entry.value.handled
        if entry.value.calls and (one.group, one.seq) == (entry.value.calls[-1].group, entry.value.calls[-1].seq)
    ]


def sentences(errors: list[tuple[int, Handled]]) -> list[str]:
    """`rank 2 called a collective while it handled IndexError: index out of range in self`."""
    return [f"rank {rank} called a collective while it handled {error_text(one.error)}" for rank, one in errors]


def where(errors: list[tuple[int, Handled]]) -> Iterator[Where]:
    """The user's lines that raised them."""
    for rank, one in errors:
        place = users_frame(one.error.stack)
        if place is not None:
            yield Where.at(place, rank=rank, note="raised here")

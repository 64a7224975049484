"""What is said of a rank that waits, or is waited for, after an exception has ended one of its threads."""

from __future__ import annotations

from collections.abc import Collection

from ddpdoctor.analysis.crashes.failure import error_text
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import ThreadError, ThreadErrors
from ddpdoctor.model import Where

REMEDY = "a thread of this rank has died of an error: mend that first, and let whoever waits for the thread hear of it"


def of_ranks(errors: PerRank[ThreadErrors] | None, ranks: Collection[int]) -> list[tuple[int, ThreadError]]:
    """The threads of these ranks that died, each with its rank."""
    return [(entry.rank, one) for entry in errors or () if entry.rank in ranks for one in entry.value.each]


def sentences(died: list[tuple[int, ThreadError]]) -> list[str]:
    """`a thread of rank 1 (Thread-1) had died of KeyError: 'beat'`."""
    return [f"a thread of rank {rank} ({one.thread}) had died of {error_text(one.error)}" for rank, one in died]


def where(died: list[tuple[int, ThreadError]]) -> list[Where]:
    """The user's lines at which they died."""
    return [
        Where.at(place, rank=rank, note="its thread died here")
        for rank, one in died
        if (place := users_frame(one.error.stack)) is not None
    ]

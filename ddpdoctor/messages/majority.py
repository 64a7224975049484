"""Sentences about ranks that differ: who has which value, and whether a majority says who is at fault."""

from __future__ import annotations

from ddpdoctor.analysis.rank_differences import Difference
from ddpdoctor.model import group_ranks

NO_MAJORITY = "no majority: either side may be at fault"


def tie_note(*, tied: bool) -> str:
    """Return what to append to a message that names both sides because neither is a majority; empty where one is."""
    return f"; {NO_MAJORITY}" if tied else ""


def values_by_rank(difference: Difference) -> str:
    """Return `3.10 on ranks 0-2, 3.11 on rank 3`, with the note about a tie where there is one."""
    listed = ", ".join(f"{value} on {group_ranks(ranks)}" for value, ranks in difference.values.items())
    return f"{listed}{tie_note(tied=difference.tied)}"

"""The ranks that ended by themselves: not because a peer did not come, and not because their launcher ended them."""

from __future__ import annotations

from signal import SIGABRT, SIGTERM

from ddpdoctor.analysis.crashes.error_patterns import secondary_error
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import RankExit

ENDED_BY_OTHERS = (-SIGTERM, -SIGABRT)  # by the launcher, and by NCCL's watchdog when a collective has timed out


def ended_well(exits: PerRank[RankExit] | None) -> set[int]:
    """The ranks that ended with exit code 0, and not because the whole job was ended."""
    return {entry.rank for entry in exits or () if entry.value.exit_code == 0 and not entry.value.ended_by_launcher}


def ended_by_themselves(exits: PerRank[RankExit] | None) -> frozenset[int]:
    """The ranks with an error or an exit code of their own, 0 included."""
    return frozenset(entry.rank for entry in exits or () if _is_own(entry.value))


def _is_own(ending: RankExit) -> bool:
    if ending.ended_by_launcher:
        return False
    if ending.error is not None:
        return secondary_error(ending.error.message) is None
    return ending.exit_code is not None and ending.exit_code not in ENDED_BY_OTHERS

"""Who keeps whom waiting: the ranks that sit in a collective, those that do something else, and since when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ddpdoctor.analysis.doing import Doing, Doings
from ddpdoctor.analysis.telling import Activity
from ddpdoctor.evidence.process import Stall
from ddpdoctor.model import SkipCheck, Where, group_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Standstill:
    """Ranks that wait for their peers, and the peers that do something else instead. `seconds` is None where unknown."""

    waiting: tuple[Doing, ...]
    elsewhere: tuple[Doing, ...]
    seconds: float | None

    def culprits(self, *activities: Activity) -> tuple[Doing, ...]:
        """The ranks that keep the others waiting by one of these activities."""
        return tuple(doing for doing in self.elsewhere if doing.activity in activities)

    def who(self, culprits: Sequence[Doing]) -> str:
        """`rank 2 in prepare (job.py:12)`: the subject of a sentence about the culprits."""
        places = {doing.place for doing in culprits}
        place = places.pop() if len(places) == 1 else None
        spot = f" in {place.function} ({PurePath(place.file).name}:{place.line})" if place is not None else ""
        return f"{group_ranks([doing.rank for doing in culprits])}{spot}"

    def said_of(self, culprits: Sequence[Doing]) -> str:
        """`rank 2 in prepare (job.py:12) sleeps`, `ranks 1-2 in save (job.py:30): waits for a lock`."""
        return f"{self.who(culprits)}{':' if len(culprits) > 1 else ''} {culprits[0].told}"

    def wait_for(self, culprits: Sequence[Doing]) -> str:
        """`ranks 0-1,3 wait for it in backward for 6.1 s`: the end of a sentence about the culprits."""
        ranks = [doing.rank for doing in self.waiting]
        operations = sorted({doing.operation for doing in self.waiting if doing.operation})
        verb = "wait" if len(ranks) > 1 else "waits"
        where = f" in {' and '.join(operations)}" if operations else ""
        how_long = f" for {self.seconds:.1f} s" if self.seconds is not None else ""
        them = "them" if len(culprits) > 1 else "it"
        return f"{group_ranks(ranks)} {verb} for {them}{where}{how_long}"

    def where(self, culprits: Sequence[Doing]) -> tuple[Where, ...]:
        """The culprits' places with what they do there, then those of the ranks that wait."""
        theirs = [_where(doing, f"{doing.told}{_effort(doing)}") for doing in culprits]
        others = [_where(doing, f"waiting in {doing.operation or 'a collective'}") for doing in self.waiting]
        return tuple(where for where in theirs + others if where is not None)


def derive(doings: Doings, stall: Stall | None) -> Standstill:
    """The standstill that the ranks' activities show.

    Raises:
        SkipCheck: no rank waits for its peers, so nobody keeps anybody waiting.
    """
    if not doings.waiting:
        raise SkipCheck("no rank waits for another one")
    moving = [doing.rank for doing in doings.waiting if doing.moved]
    if stall is None and moving:
        raise SkipCheck(
            f"the job goes on: {group_ranks(moving)} came out of the wait and was elsewhere at a second look"
        )
    return Standstill(
        waiting=doings.waiting, elsewhere=doings.elsewhere, seconds=stall.seconds if stall is not None else None
    )


def _where(doing: Doing, note: str) -> Where | None:
    if doing.place is None:
        return None
    place = doing.place
    return Where.at(place, rank=doing.rank, note=note)


def _effort(doing: Doing) -> str:
    """`, on CPU 97 %`: whether it moves at all."""
    share = doing.process.cpu_share if doing.process is not None else None
    return f", on CPU {100 * share:.0f} %" if share is not None else ""

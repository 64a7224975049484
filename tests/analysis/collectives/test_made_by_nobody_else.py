"""A mismatch in a group of two: a call that no other rank makes in groups of the same part, at any time, is the wrong one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord
from tests.flight_records import Did, flights, record, waits

WORLD = 6
USUAL, OTHER = ((10,),), ((12,),)


def active(rank: int, *calls: Did, first: int) -> FlightRecord:
    """The calls of a rank in its group of two that are not complete, the oldest with the number `first`."""
    pair = (rank - rank % 2, rank - rank % 2 + 1)
    made = [waits(replace(one, group=f"{1 + rank // 2}", members=pair)) for one in calls]
    return record(made, world=WORLD, first=first, lost=first - 1)


def job(*sizes_elsewhere: tuple[tuple[int, ...], ...]) -> Evidence:
    """Rank 1 gives another shape than rank 0 by number 5; the other groups are at number 7."""
    gathers = [Did("_all_gather_base", sizes=sizes) for sizes in sizes_elsewhere]
    others = [active(rank, *gathers, first=7) for rank in range(2, WORLD)]
    mine = [active(rank, Did("_all_gather_base", sizes=(USUAL, OTHER)[rank]), first=5) for rank in (0, 1)]
    return flights(*mine, *others)


@pytest.mark.parametrize(("elsewhere", "ranks"), [((USUAL,), (1,)), ((OTHER,), (0,)), ((USUAL, OTHER), (0, 1))])
def test_the_rank_whose_shape_no_other_rank_gives_is_named(
    elsewhere: tuple[tuple[tuple[int, ...], ...], ...], ranks: tuple[int, ...]
) -> None:
    (finding,) = diagnose(job(*elsewhere)).findings
    assert (finding.code, finding.ranks) == ("DDP302", ranks)

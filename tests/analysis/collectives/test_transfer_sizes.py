"""A send and its receive that were posted and do not end, with tensors of two sizes (DDP302)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Finding
from tests.flight_records import Did, flights, record, waits

SEND, WAY_BACK = Did("send", line=70, peers=(0, 1)), Did("send", line=75, peers=(1, 0))


def findings(*made: list[Did]) -> list[Finding]:
    report = diagnose(flights(*(record(one, world=2, waited=600.0) for one in made)))
    return [one for one in report.findings if one.explained_by is None]


@pytest.mark.parametrize(("sent", "ranks"), [((12,), (0,)), ((10,), ())])
def test_the_rank_with_a_size_that_no_other_uses_is_named(sent: tuple[int, ...], ranks: tuple[int, ...]) -> None:
    before = [SEND, replace(WAY_BACK, op="recv")]
    first = [*before, waits(replace(SEND, sizes=(sent,)))]
    second = [replace(SEND, op="recv"), WAY_BACK, waits(replace(SEND, op="recv"))]
    (finding,) = findings(first, second)
    assert (finding.code, finding.ranks) == ("DDP302" if ranks else "DDP314", ranks)
    if ranks:
        assert finding.message == "rank 0 sends [12] of Float to rank 1, which receives [10] of Float"


def test_of_two_sizes_that_nobody_else_uses_both_ranks_are_named() -> None:
    (finding,) = findings([waits(replace(SEND, sizes=((12,),)))], [waits(replace(SEND, op="recv"))])
    assert (finding.code, finding.ranks) == ("DDP302", (0, 1))


def test_two_sizes_decide_also_where_several_transfers_are_under_way_and_nothing_tells_a_moment() -> None:
    first = [waits(replace(SEND, sizes=((12,),))), waits(replace(WAY_BACK, op="recv"))]
    second = [waits(replace(SEND, op="recv")), waits(WAY_BACK)]
    report = diagnose(flights(*(record(one, world=2, waited=None) for one in (first, second))))
    assert report.findings[0].code == "DDP302"

"""Dumps that tell nothing of their ranks: from before what their peers wait in, or without an entry."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from tests.flight_records import STEP, Did, flights, record, waits

NOTHING = replace(record([STEP], world=3), call=(), seq=(), stack=(), state=(), created_ns=())
BATCH = (Did("send", peers=(0, 1)), Did("recv", peers=(1, 0)), Did("coalesced"))


def job(*before: Did, third: object = NOTHING) -> Evidence:
    """Three ranks, of which two made these calls and wait in a further all_reduce for the third."""
    return flights([*before, waits(STEP)], [*before, waits(STEP)], third)  # type: ignore[arg-type]


def told(evidence: Evidence) -> tuple[Reason | None, list[str]]:
    graph = derived(evidence, WaitForGraph)
    return graph.reason if graph is not None else None, [finding.code for finding in diagnose(evidence).findings]


@pytest.mark.parametrize("before", [(STEP,), (Did("barrier"),), (Did("all_gather"),), (*BATCH, STEP)])
def test_a_rank_whose_peers_completed_with_it_what_needs_its_data_recorded_nothing(before: tuple[Did, ...]) -> None:
    assert told(job(*before)) == (Reason.RECORDED_NOTHING, ["DDP408"])


@pytest.mark.parametrize("before", [(), BATCH, (Did("broadcast"),), (Did("coalesced"),)])
def test_a_rank_without_which_its_peers_could_complete_all_that_they_did_may_have_made_no_call(
    before: tuple[Did, ...],
) -> None:
    assert told(job(*before)) == (Reason.IDLE, ["DDP307"])


def test_a_dump_from_before_is_another_reason() -> None:
    assert told(job(STEP, third=record([STEP], world=3, waited=0.0))) == (Reason.OLDER, ["DDP408"])


def test_a_rank_that_made_a_call_shortly_before_the_last_dump_is_on_its_way() -> None:
    """Its peers have waited for 2.1 s, and all dumps are of one moment."""
    peer = record([STEP, waits(STEP)], world=3, waited=2.1)
    third = record([STEP], world=3, waited=1.9)
    assert told(flights(peer, peer, third)) == (None, [])


def test_an_older_dump_beside_an_empty_one_is_told_apart() -> None:
    older = record([STEP], world=4, waited=0.0)
    empty = replace(NOTHING, groups=older.groups)
    (finding,) = diagnose(flights([STEP, waits(STEP)], [STEP, waits(STEP)], older, empty)).findings
    assert finding.message == (
        "ranks 0-1 wait in all_reduce #2, and the dump of rank 2 is from before that and ends with all_reduce #1 "
        "and the dump of rank 3 holds no call"
    )
    assert {key: finding.measured[key] for key in ("older_dump", "empty_dump")} == {
        "older_dump": [2],
        "empty_dump": [3],
    }


def test_dumps_of_a_job_that_went_on_between_them_accuse_nobody_where_no_file_tells_its_moment() -> None:
    """Rank 2 has completed what rank 0 had not enqueued yet, so rank 1 may have completed its call by then, too."""
    made = [STEP], [STEP, waits(STEP), waits(STEP)], [STEP, STEP, STEP, waits(STEP)]
    assert not diagnose(flights(*(record(each, world=3, waited=None) for each in made))).findings
    few = [STEP, STEP, STEP, waits(STEP)], *made[1:]
    report = diagnose(flights(*(record(each, world=3, waited=None) for each in few)))
    assert not report.findings
    assert "rank 1 did not complete the last calls that peers have" in report.undecided[0]
    peer, stopped = [*[STEP] * 6, *[waits(STEP)] * 2], [STEP, *[waits(STEP)] * 7]
    many = peer, stopped, peer
    (finding,) = diagnose(flights(*(record(each, world=3, waited=None) for each in many))).findings
    assert (finding.code, finding.ranks) == ("DDP319", (1,))


@pytest.mark.parametrize("reached", [12, 19])
def test_a_dump_from_before_what_all_others_wait_in_is_told_where_no_file_tells_its_moment(reached: int) -> None:
    made = [*([[STEP] * 20 + [waits(STEP)]] * 3), [STEP] * reached]
    assert told(flights(*(record(each, waited=None) for each in made))) == (Reason.OLDER, ["DDP408"])


@pytest.mark.parametrize(
    "made",
    [
        [[STEP] * 12, [STEP] * 15, [STEP] * 18, [STEP] * 20 + [waits(STEP)]],
        [[STEP] * 12, [STEP] * 20, [STEP] * 20, [STEP] * 20 + [waits(STEP)]],
        [[STEP] * 12, [STEP] * 21, [STEP] * 20 + [waits(STEP)], [STEP] * 20 + [waits(STEP)]],
        [[STEP] * 19, *([[STEP] * 21] * 3), *([[STEP] * 20 + [waits(STEP)]] * 4)],
    ],
)
def test_dumps_of_several_moments_of_a_healthy_job_accuse_nobody(made: list[list[Did]]) -> None:
    assert told(flights(*(record(each, waited=None) for each in made))) == (Reason.MOVED, [])

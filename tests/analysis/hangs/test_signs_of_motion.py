"""Dumps of which nothing tells when they were made: ranks are at fault only where all others are at rest."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import State
from tests.flight_records import STEP, Did, flights, record, waits

PAIRS = (0, 1), (2, 3)


def paired(*made: tuple[Did, ...], waited: float | None = None) -> Evidence:
    """Ranks in groups of two, and what each called."""
    return flights(*(record([*each], world=len(made), waited=waited) for each in made))


def of_pair(did: Did, ranks: tuple[int, ...]) -> Did:
    return replace(did, group=f"pair {ranks[0]}", members=ranks)


def reason(evidence: Evidence) -> Reason | None:
    graph = derived(evidence, WaitForGraph)
    return graph.reason if graph is not None else None


def calls(*, moves: bool, behind_by: int = 5) -> list[tuple[Did, ...]]:
    """Rank 1 did not complete calls of its pair, rank 0 did; the other pair waits for all, or stands in a call of its own."""
    first, second = PAIRS
    one = of_pair(STEP, first)
    other = of_pair(STEP, second)
    theirs = (other, waits(other)) if moves else (other, other, waits(STEP))
    behind = (one, *[waits(one)] * behind_by, waits(STEP))
    return [(one, *[one] * behind_by, waits(STEP)), behind, theirs, theirs]


def test_a_rank_that_alone_is_behind_has_stopped() -> None:
    assert reason(paired(*calls(moves=False))) is Reason.STOPPED


@pytest.mark.parametrize("behind_by", [1, 3])
@pytest.mark.parametrize(("waited", "told"), [(None, Reason.MOVED), (600.0, Reason.STOPPED)])
def test_a_few_calls_that_a_peer_has_completed_tell_nothing_where_no_dump_tells_its_moment(
    waited: float | None, told: Reason, behind_by: int
) -> None:
    assert reason(paired(*calls(moves=False, behind_by=behind_by), waited=waited)) is told


def test_a_rank_that_peers_at_work_have_overtaken_has_not_stopped() -> None:
    """The job rested for long, and went on a moment before the dumps: the rank had not noted the end of its call yet."""
    made = calls(moves=False)
    rested = [record([*each], world=4, waited=600.0) for each in made]
    rested[0] = record([*made[0]], world=4, waited=0.1)
    assert reason(flights(*rested)) is not Reason.STOPPED


@pytest.mark.parametrize(("waited", "told"), [(None, Reason.MOVED), (600.0, Reason.STANDING)])
def test_a_device_that_may_still_compute_is_none_that_has_stopped_where_nothing_tells_a_moment(
    waited: float | None, told: Reason
) -> None:
    records = [record([STEP, waits(STEP)], world=4, waited=waited) for _ in range(4)]
    queued = replace(records[0], state=(records[0].state[0], State.SCHEDULED))
    assert reason(flights(queued, *records[1:])) is told
    assert reason(flights(*records)) is Reason.STANDING


def test_the_end_of_a_collective_that_a_few_ranks_have_noted_shows_motion() -> None:
    """The last rank waits for nobody: what its peers wait in has ended there, and needs the data of them all."""
    ended = record([STEP, STEP], world=6, waited=None)
    peers = [record([STEP, waits(STEP)], world=6, waited=None) for _ in range(4)]
    graph = derived(flights(ended, *peers, None), WaitForGraph)
    assert graph is None or graph.reason is Reason.MOVED


def test_a_rank_is_not_at_fault_where_a_call_of_others_stands_as_well() -> None:
    evidence = paired(*calls(moves=True))
    assert reason(evidence) is Reason.MOVED
    report = diagnose(evidence)
    assert not report.findings
    (undecided,) = report.undecided
    assert undecided.startswith(
        "the job may have been on its way when its dumps were made: all members have enqueued all_reduce #2"
    )
    assert "A second dump some seconds later decides it" in undecided


def test_old_calls_are_a_hang_whatever_else_stands() -> None:
    assert reason(paired(*calls(moves=True), waited=600.0)) is Reason.STOPPED


@pytest.mark.parametrize(
    ("made", "sign"),
    [
        ([(STEP, STEP), (STEP, waits(STEP)), (STEP, STEP), (STEP, STEP)], "no other rank waits"),
        (
            [(STEP, STEP, waits(STEP)), *([(STEP, waits(STEP), waits(STEP))] * 3)],
            "3 ranks at once do not come after the others",
        ),
        ([*([(STEP,)] * 3), *([(STEP, waits(STEP))] * 5)], "3 ranks at once do not come after the others"),
        (
            [(STEP, STEP), (STEP, waits(STEP), waits(STEP)), (STEP, STEP, waits(STEP))],
            "rank 0 waits for nothing, and others wait for it, too",
        ),
    ],
)
def test_what_a_healthy_job_shows_at_any_moment(made: list[tuple[Did, ...]], sign: str) -> None:
    graph = derived(paired(*made), WaitForGraph)
    assert graph is not None
    assert (graph.reason, graph.motion) == (Reason.MOVED, sign)


def test_dumps_of_active_calls_alone_tell_what_was_completed_by_what_is_left() -> None:
    """Rank 3 waits in call 6, so call 5 was completed by all, and rank 0 has not enqueued it."""
    active = [
        record([waits(STEP)] * open_, world=4, first=first, lost=first - 1, waited=None)
        for first, open_ in ((2, 2), (4, 3), (5, 2), (6, 1))
    ]
    graph = derived(flights(*active), WaitForGraph)
    assert graph is not None
    assert (graph.reason, graph.motion) == (Reason.MOVED, "the dumps of its ranks are of different moments")


@pytest.mark.parametrize(("together", "told"), [(False, Reason.MOVED), (True, Reason.IDLE)])
def test_ranks_of_several_hosts_that_each_lack_in_another_call_are_no_single_fault(
    *, together: bool, told: Reason
) -> None:
    """They are, where all lack in one call."""
    made: list[tuple[Did, ...]] = []
    for rank in range(32):
        call = STEP if together else of_pair(STEP, tuple(range(rank // 8 * 8, rank // 8 * 8 + 8)))
        made.append((call,) if rank in {0, 12, 20, 30} else (call, waits(call)))
    assert reason(paired(*made)) is told


@pytest.mark.parametrize(
    ("away", "moments_kept", "told"), [(0, False, Reason.MOVED), (0, True, Reason.IDLE), (1, False, Reason.IDLE)]
)
def test_the_first_rank_alone_may_be_saving_a_checkpoint_where_no_dump_tells_a_moment(
    away: int, *, moments_kept: bool, told: Reason
) -> None:
    """A recorder whose watchdog writes a dump after a timeout notes when calls end."""
    made = [(STEP,) if rank == away else (STEP, waits(Did("barrier"))) for rank in range(4)]
    records = [record([*each], waited=None) for each in made]
    if moments_kept:
        records = [replace(one, completed_ns=(one.created_ns[0], *([0] * (len(one) - 1)))) for one in records]
    evidence = flights(*records)
    assert reason(evidence) is told
    if told is Reason.MOVED:
        (undecided,) = diagnose(evidence).undecided
        assert "rank 0 alone has something else to do, as when it saves a checkpoint" in undecided


@pytest.mark.parametrize(("waited", "told"), [(None, Reason.MOVED), (600.0, Reason.STANDING)])
def test_calls_under_way_in_two_places_are_no_two_faults_where_nothing_tells_a_moment(
    waited: float | None, told: Reason
) -> None:
    made = [(STEP, waits(of_pair(STEP, pair))) for pair in PAIRS for _ in pair]
    assert reason(paired(*made, waited=waited)) is told
    alone = [*made[:2], *[(STEP, of_pair(STEP, PAIRS[1]), waits(STEP))] * 2]
    assert reason(paired(*alone, waited=waited)) is Reason.STANDING


@pytest.mark.parametrize(("waited", "told"), [(None, Reason.MOVED), (600.0, Reason.MISSING)])
def test_ranks_without_a_dump_are_no_suspects_where_most_others_wait_for_nothing(
    waited: float | None, told: Reason
) -> None:
    made = [(STEP,), (STEP,), (STEP,), (STEP,), (STEP, waits(of_pair(STEP, (4, 5))))]
    evidence = flights(*(record([*each], world=6, waited=waited) for each in made), None)
    assert reason(evidence) is told

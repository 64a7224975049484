"""Ranks that send and receive in a group of all ranks, or round in a circle: which of them have one part in the job."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.transfers.transfer_places import ENOUGH_CALLS
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from tests.flight_records import Did, flights, record, waits

STAGES = 3
WORLD = 6


def transfer(op: str, source: int, target: int) -> Did:
    return Did(op, line=80, peers=(source, target))


def stage(rank: int) -> list[Did]:
    """What a rank of a pipeline does, two of which are made of the default group: it receives, and sends on."""
    receives = [transfer("recv", rank - 1, rank)] if rank % STAGES else []
    sends = [transfer("send", rank, rank + 1)] if rank % STAGES < STAGES - 1 else []
    return [*receives, *sends]


def places(evidence: Evidence, group: str = "0") -> list[tuple[tuple[int, ...], int | None]]:
    programs = derived(evidence, ProgramComparison)
    assert programs is not None
    found = programs.places
    return [(found.among(rank, group), found.place(rank, group)) for rank in sorted(programs.records)]


def test_a_place_in_one_of_several_pipelines_of_the_default_group_is_a_part() -> None:
    found = places(flights(*([*stage(rank), waits(Did("all_reduce"))] for rank in range(WORLD))))
    assert found == [((0, 1, 2), place) for place in range(STAGES)] + [((3, 4, 5), place) for place in range(STAGES)]


def test_transfers_between_pipelines_leave_each_rank_a_part_of_its_own() -> None:
    made = [[*stage(rank), waits(Did("all_reduce"))] for rank in range(WORLD)]
    for rank in range(STAGES):
        made[rank].insert(0, transfer("send", rank, rank + STAGES))
    assert places(flights(*made)) == [(tuple(range(WORLD)), rank) for rank in range(WORLD)]


@pytest.mark.parametrize(("turns", "circular"), [(ENOUGH_CALLS, True), (ENOUGH_CALLS // 3, False)])
def test_ranks_that_pass_data_round_have_one_part(turns: int, *, circular: bool) -> None:
    """Shown by calls enough; two circles, of which each is a group."""
    each = []
    for rank in range(WORLD):
        members = tuple(range(STAGES)) if rank < STAGES else tuple(range(STAGES, WORLD))
        me, name = rank % STAGES, f"cp{rank // STAGES}"
        send = Did("send", peers=(me, (me + 1) % STAGES), group=name, members=members)
        receive = Did("recv", peers=((me - 1) % STAGES, me), group=name, members=members)
        each.append(record([send, receive] * turns, world=WORLD))
    evidence = flights(*each)
    found = [
        place for group, ranks in (("cp0", range(3)), ("cp1", range(3, 6))) for place in _in(evidence, group, ranks)
    ]
    assert found == ([None] * WORLD if circular else [0, 1, 2, 0, 1, 2])


def test_a_circle_does_not_hide_the_places_in_pipelines_of_which_dumps_hold_no_transfer() -> None:
    """Two circles, and three pipelines between them, whose sends have left the dumps of active calls."""
    each = []
    for rank in range(WORLD):
        members = tuple(range(STAGES)) if rank < STAGES else tuple(range(STAGES, WORLD))
        me, name = rank % STAGES, f"cp{rank // STAGES}"
        send = Did("send", peers=(me, (me + 1) % STAGES), group=name, members=members)
        norm = Did("all_reduce", group=f"pp{me}", members=(me, me + STAGES))
        each.append(record([*[send] * ENOUGH_CALLS, norm], world=WORLD))
    evidence = flights(*each)
    assert [_in(evidence, f"pp{me}", range(me, WORLD, STAGES)) for me in range(STAGES)] == [[0, 1]] * STAGES


def turns_of(rank: int, turns: int) -> list[Did]:
    """What a rank does in a circle of all ranks."""
    return [transfer("send", rank, (rank + 1) % WORLD), transfer("recv", (rank - 1) % WORLD, rank)] * turns


@pytest.mark.parametrize(("turns", "circular"), [(ENOUGH_CALLS, True), (ENOUGH_CALLS // 3, False)])
def test_the_ranks_of_one_circle_have_one_part(turns: int, *, circular: bool) -> None:
    found = places(flights(*(turns_of(rank, turns) for rank in range(WORLD))))
    assert found == [(tuple(range(WORLD)), None if circular else rank) for rank in range(WORLD)]


def test_a_rank_of_a_circle_with_more_turns_than_its_like_is_named_by_active_calls_alone() -> None:
    """Such dumps hold no collective that is complete, and the sends and receives of batches."""
    step = waits(Did("all_reduce"))
    made = [[*turns_of(rank, ENOUGH_CALLS), *map(waits, turns_of(rank, rank == 4)), step] for rank in range(WORLD)]
    (finding,) = diagnose(flights(*(record(each, world=WORLD, lost=2) for each in made))).findings
    assert (finding.code, finding.ranks) == ("DDP313", (4,))


def _in(evidence: Evidence, group: str, ranks: range) -> list[int | None]:
    programs = derived(evidence, ProgramComparison)
    assert programs is not None
    return [programs.places.place(rank, group) for rank in ranks]


def test_a_wrong_partner_in_a_pipeline_of_the_default_group_is_named() -> None:
    """Rank 1 receives from its successor; rank 0 waits for it, and rank 4 of the other pipeline shows what is right."""
    sick = [
        [waits(transfer("send", 0, 1))],
        [waits(transfer("recv", 2, 1)), waits(transfer("send", 1, 2))],
        [waits(transfer("recv", 1, 2))],
    ]
    before = [stage(rank) for rank in range(WORLD)]
    second = [*sick, *before[STAGES:]]
    (finding,) = diagnose(flights(*([*one, *other] for one, other in zip(before, second, strict=True)))).findings
    assert (finding.code, finding.ranks) == ("DDP313", (1,))
    assert "rank 1 called recv from rank 2 where" in finding.message

"""Pipelines of two replicas: of two ranks at one stage no majority tells who deviates, the pairs of other stages do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.model import Finding
from tests.flight_records import STEP, Did, flights, record, waits

STAGES, RANKS = 4, 8
SIZES = (30, 40, 50)


def of_pair(rank: int, size: int) -> Did:
    """A call of the pair of ranks at one stage."""
    members = (rank % STAGES, rank % STAGES + STAGES)
    return Did("all_reduce", line=70, sizes=((size,),), group=f"pair {members[0]}", members=members)


def step_of(rank: int) -> list[Did]:
    """What a rank passes on in its pipeline, then the calls of its pair."""
    stage = rank % STAGES
    received = [Did("recv", line=60, peers=(rank - 1, rank))] if stage else []
    sent = [Did("send", line=61, peers=(rank, rank + 1))] if stage < STAGES - 1 else []
    return [*received, *sent, *(of_pair(rank, size) for size in SIZES)]


def findings(made: Sequence[Sequence[Did]]) -> list[Finding]:
    records = (record(one, world=RANKS, waited=600.0) for one in made)
    described = (
        replace(one, groups=tuple(replace(group, description=group.name.split()[0]) for group in one.groups))
        for one in records
    )
    return [one for one in diagnose(flights(*described)).findings if one.explained_by is None]


@pytest.mark.parametrize("odd", [0, 4, 5])
def test_another_call_of_one_of_two_ranks_is_told_by_the_pairs_of_other_stages(odd: int) -> None:
    made = [[*step_of(rank)[:-1], of_pair(rank, SIZES[-1])] for rank in range(RANKS)]
    for rank in (odd, (odd + STAGES) % RANKS):
        made[rank][-1] = waits(replace(made[rank][-1], op="broadcast") if rank == odd else made[rank][-1])
    for one in made:
        one.append(waits(STEP))
    (finding,) = findings(made)
    assert (finding.code, finding.ranks) == ("DDP301", (odd,))


def test_pairs_that_made_other_calls_before_tell_nothing() -> None:
    made = [[*step_of(rank), waits(STEP)] for rank in range(RANKS)]
    for rank in (0, 4):
        made[rank] = [
            *(of_pair(rank, size) for size in (7, 8)),
            waits(replace(of_pair(rank, SIZES[-1]), op="broadcast" if rank else "all_reduce")),
        ]
    (finding,) = findings(made)
    assert (finding.code, finding.ranks) == ("DDP301", (0, 4))


@pytest.mark.parametrize("odd", [1, 4])
def test_one_that_left_out_a_call_of_all_ranks_is_told_by_how_much_others_had_called_before_it(odd: int) -> None:
    made = [[*step_of(rank), waits(STEP)] for rank in range(RANKS)]
    made[odd] = [*step_of(odd), waits(of_pair(odd, SIZES[0]))]
    (finding,) = findings(made)
    assert (finding.code, finding.ranks) == ("DDP312", (odd,))


def test_one_that_left_out_a_call_of_its_pair_is_told_in_the_same_way() -> None:
    made = [[*step_of(rank), waits(STEP)] for rank in range(RANKS)]
    made[1][-1] = waits(of_pair(1, SIZES[0]))
    for rank in (*range(RANKS),):
        if rank not in (1, 5):
            made[rank] = [*step_of(rank), of_pair(rank, SIZES[0]), waits(STEP)]
    (finding,) = findings(made)
    assert finding.ranks == (5,)


@pytest.mark.parametrize("odd", [0, 6])
def test_an_extra_call_is_told_by_one_later_call_before_which_all_others_made_as_many(odd: int) -> None:
    """Short rings hold one step, whose calls are queued."""
    made = [[*step_of(rank)[:-2], waits(STEP)] for rank in range(RANKS)]
    for rank in (odd, (odd + STAGES) % RANKS):
        extra = [waits(of_pair(rank, 3))] if rank == odd else []
        made[rank][-2:] = [*extra, waits(of_pair(rank, SIZES[0])), waits(STEP)]
    (finding,) = findings(made)
    assert (finding.code, finding.ranks) == ("DDP305", (odd,))


def test_an_order_of_calls_that_were_dropped_is_told_by_tables_of_groups() -> None:
    """Ranks 0 and 1 wait for each other: rank 1 made the call of all first. Other pairs are through with theirs."""
    made: list[list[Did]] = [[waits(STEP)] for _ in range(4)]
    pair = {
        rank: Did("all_gather", group=f"pair {rank // 2}", members=(rank - rank % 2, rank - rank % 2 + 1))
        for rank in range(4)
    }
    made[0] = [waits(pair[0]), waits(STEP)]
    made[1] = [waits(STEP), waits(pair[1])]
    each = []
    for rank, calls in enumerate(made):
        one = record([*calls, waits(pair[rank])] if rank > 1 else calls, world=4, waited=600.0, lost=20)
        groups = tuple(
            replace(group, description=group.name.split()[0], last_enqueued=1, last_completed=0) for group in one.groups
        )
        if rank > 1:  # the dump has dropped the call of the pair
            kept = 1
            one = replace(
                one,
                call=one.call[:kept],
                seq=one.seq[:kept],
                stack=one.stack[:kept],
                state=one.state[:kept],
                created_ns=one.created_ns[:kept],
            )
            groups = tuple(replace(group, last_completed=1 if group.name != "0" else 0) for group in groups)
        each.append(replace(one, groups=groups))
    (finding,) = diagnose(flights(*each)).findings
    assert (finding.code, finding.ranks) == ("DDP312", (1,))

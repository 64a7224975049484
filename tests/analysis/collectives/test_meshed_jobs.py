"""Jobs over gloo on a mesh of two by two ranks: of two ranks, those of the other groups tell which left a call out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.ranks import CollectiveCalls, GroupMembers, RankExit
from ddpdoctor.evidence.source import CodePlace, Condition, Loop
from ddpdoctor.model import Finding
from tests.flight_records import TRAIN, Did, flights, record, waits

GROUPS = {"1": (0, 2), "2": (1, 3), "3": (0, 1), "4": (2, 3)}
FORWARD, BACKWARD, GRADIENTS, METRIC, END = 21, 13, 71, 74, 88
STEPS, ODD_STEP = 9, 4
GRADIENT_LOOP = Loop(line=68, head="for p in model.parameters()")
EPOCH = Loop(line=60, head="for step in range(9)")


def group_of(rank: int, *, tensor: bool) -> tuple[str, tuple[int, ...]]:
    return next((name, ranks) for name, ranks in GROUPS.items() if rank in ranks and (int(name) > 2) == tensor)


def call(rank: int, line: int, *, tensor: bool, size: int = 10) -> Did:
    name, members = group_of(rank, tensor=tensor)
    return Did("all_reduce", line=line, function="main", sizes=((size,),), group=name, members=members)


def step_of(rank: int) -> list[Did]:
    layers = [call(rank, FORWARD, tensor=True)] * 2 + [call(rank, BACKWARD, tensor=True)]
    return [*layers, *[call(rank, GRADIENTS, tensor=False)] * 3]


def job(odd: int, *, without: int = 0, besides: int = 0, leaves: bool = False) -> list[list[Did]]:
    """The program of each rank; rank `odd` does something else in one step."""
    programs: list[list[Did]] = []
    for rank in range(4):
        made: list[Did] = []
        for step in range(STEPS):
            here = step_of(rank)
            if (rank, step) == (odd, ODD_STEP) and leaves:
                break
            if (rank, step) == (odd, ODD_STEP):
                extra = [call(rank, besides, tensor=False, size=1)] if besides else []
                here = [did for did in here if did.line != without] + extra
            made += here
        else:
            made.append(Did("barrier", line=END, function="main"))
        programs.append(made)
    return programs


def run(programs: Sequence[Sequence[Did]], *, checks_sizes: bool = True) -> list[list[Did]]:
    """What each rank records until nothing moves: as on gloo, a rank waits in each call for all members of its group."""
    made: list[list[Did]] = [[] for _ in programs]

    def waiting(rank: int) -> Did | None:
        return programs[rank][len(made[rank])] if len(made[rank]) < len(programs[rank]) else None

    moved = True
    while moved:
        moved = False
        for did in {one for rank in range(4) if (one := waiting(rank)) is not None}:
            members = did.members or (0, 1, 2, 3)
            together = [waiting(rank) for rank in members]
            same = all(one is not None and one.group == did.group for one in together)
            if same and (not checks_sizes or len({one.sizes for one in together if one is not None}) == 1):
                for rank in members:
                    made[rank].append(programs[rank][len(made[rank])])
                moved = True
                break
    return [[*done, *([waits(one)] if (one := waiting(rank)) is not None else [])] for rank, done in enumerate(made)]


def findings(made: Sequence[Sequence[Did]], ended: int | None = None) -> list[Finding]:
    facts: dict[int, list[object]] = {
        rank: [
            CollectiveCalls(
                groups=tuple(
                    GroupMembers(group=name, ranks=members) for name, members in GROUPS.items() if rank in members
                )
            )
        ]
        for rank in range(4)
    }
    if ended is not None:
        facts[ended].append(RankExit(exit_code=0))
    places = [
        CodePlace(file=TRAIN, line=FORWARD, function="main", loops=(EPOCH,)),
        CodePlace(file=TRAIN, line=BACKWARD, function="main", loops=(EPOCH,)),
        CodePlace(file=TRAIN, line=GRADIENTS, function="main", loops=(EPOCH, GRADIENT_LOOP)),
        CodePlace(
            file=TRAIN,
            line=METRIC,
            function="main",
            loops=(EPOCH,),
            conditions=(Condition(line=73, test="loss.isnan()", branch=0),),
        ),
        CodePlace(file=TRAIN, line=END, function="main"),
    ]
    records = [replace(record(one, backend="gloo")) for one in made]
    evidence = flights(*records, backend="gloo", code=places, facts=facts)
    return [one for one in diagnose(evidence).findings if one.explained_by is None]


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
@pytest.mark.parametrize(("line", "kind"), [(FORWARD, "tensor"), (GRADIENTS, "data")])
def test_a_call_that_was_left_out_long_ago_is_named_with_its_line(odd: int, line: int, kind: str) -> None:
    (finding,) = findings(run(job(odd, without=line)))
    assert (finding.code, finding.ranks) == ("DDP305", (odd,))
    name, _ = group_of(odd, tensor=kind == "tensor")
    number = 3 * ODD_STEP + 1
    assert f"rank {odd} left out all_reduce #{number} of group {name}" in finding.message
    assert (finding.where[0].rank, finding.where[0].line) == (odd, line)


@pytest.mark.parametrize("odd", [0, 1, 2, 3])
def test_a_call_besides_is_no_loop_that_was_left_early(odd: int) -> None:
    (finding,) = findings(run(job(odd, besides=METRIC)))
    assert (finding.code, finding.ranks) == ("DDP305", (odd,))
    assert finding.where[0].line == METRIC
    assert "loss.isnan()" in finding.where[0].note


@pytest.mark.parametrize("odd", [0, 3])
def test_a_rank_that_ended_is_one_finding_for_all_of_its_groups(odd: int) -> None:
    (finding,) = findings(run(job(odd, leaves=True)), ended=odd)
    assert (finding.code, finding.ranks) == ("DDP306", (odd,))
    assert {where.rank for where in finding.where} == {*range(4)} - {odd, 3 - odd}


def test_ranks_that_all_do_the_same_are_no_finding() -> None:
    assert findings(run([[*step_of(rank)] * 3 for rank in range(4)])) == []

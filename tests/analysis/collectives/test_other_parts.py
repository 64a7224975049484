"""Jobs over gloo in which ranks send and receive in the group of all: each rank has a part of its own there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.ranks import CollectiveCalls, GroupMembers
from ddpdoctor.model import Finding
from tests.flight_records import Did, flights, record, waits

PAIRS = {"1": (0, 1), "2": (2, 3)}
BACKWARD, METRIC, GATHER, SEND = 12, 13, 17, 15
STEPS, ODD_STEP = 9, 6


def of_pair(rank: int) -> Did:
    name = next(name for name, ranks in PAIRS.items() if rank in ranks)
    return Did("all_reduce", line=METRIC, function="main", sizes=((1,),), group=name, members=PAIRS[name])


def step_of(rank: int) -> list[Did]:
    sent = [Did("send" if rank == 0 else "recv", line=SEND, function="main", peers=(0, 1))] if rank < 2 else []
    return [
        Did("all_reduce", line=BACKWARD, function="main"),
        of_pair(rank),
        *sent,
        Did("all_gather", line=GATHER, function="main", sizes=((3,),)),
    ]


def job(odd: int, *, also: Sequence[int] = ()) -> list[list[Did]]:
    """The program of each rank; `odd` leaves out the metric of its pair in one step, and the ranks `also` in each step."""
    return [
        [
            did
            for step in range(STEPS)
            for did in step_of(rank)
            if did.line != METRIC or not (rank in also or (rank, step) == (odd, ODD_STEP))
        ]
        for rank in range(4)
    ]


def run(programs: Sequence[Sequence[Did]]) -> list[list[Did]]:
    """What each rank records until nothing moves: a rank waits in each call for all members of its group."""
    made: list[list[Did]] = [[] for _ in programs]

    def next_of(rank: int) -> Did | None:
        return programs[rank][len(made[rank])] if len(made[rank]) < len(programs[rank]) else None

    while True:
        for did in [one for rank in range(4) if (one := next_of(rank)) is not None]:
            members = did.peers or did.members or (0, 1, 2, 3)
            together = [next_of(rank) for rank in members]
            if all(one is not None and (one.line, one.group) == (did.line, did.group) for one in together):
                for rank in members:
                    made[rank].append(programs[rank][len(made[rank])])
                break
        else:
            return [
                [*done, *([waits(one)] if (one := next_of(rank)) is not None else [])] for rank, done in enumerate(made)
            ]


def findings(made: Sequence[Sequence[Did]]) -> list[Finding]:
    facts: dict[int, list[object]] = {
        rank: [
            CollectiveCalls(
                groups=tuple(GroupMembers(group=name, ranks=pair) for name, pair in PAIRS.items() if rank in pair)
            )
        ]
        for rank in range(4)
    }
    evidence = flights(*(record(one, backend="gloo") for one in made), backend="gloo", facts=facts)
    return [one for one in diagnose(evidence).findings if one.explained_by is None]


@pytest.mark.parametrize("odd", [2, 3])
def test_who_left_out_the_call_of_a_pair_is_told_by_ranks_of_the_other_pair(odd: int) -> None:
    (finding,) = findings(run(job(odd)))
    assert (finding.code, finding.ranks) == ("DDP305", (odd,))


def test_where_the_other_pair_was_never_in_step_the_ranks_own_turns_tell() -> None:
    (finding,) = findings(run(job(2, also=(0, 1))))
    assert (finding.code, finding.ranks) == ("DDP312", (2,))


def test_a_job_that_ends_is_no_finding() -> None:
    assert findings(run(job(odd=-1))) == []

"""Two pipelines of two tensor ranks, no majority anywhere: a rank's own turns of its loop tell that it deviates."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.source import CodePlace, Loop
from tests.flight_records import TRAIN, Did, flights, waits

CHUNK = Did("all_reduce", group="last", members=(2, 3), function="chunked_loss", line=16)
FIRST = Did("all_reduce", group="first", members=(0, 1), line=18)
LOOP = CodePlace(
    file=TRAIN, line=16, function="chunked_loss", loops=(Loop(line=13, head="for start in range(0, len(rows), CHUNK)"),)
)
TURNS = 4


def to(source: int, target: int, op: str, line: int) -> Did:
    return Did(op, peers=(source, target), line=line)


def job(chunks: int, *, more: int, turns: int = TURNS) -> Evidence:
    """After equal turns the last rank makes `more` calls of its loop; the others go on as before."""
    ends = {}
    for rank in (0, 1):
        sends, gets = to(rank, rank + 2, "send", 19), to(rank + 2, rank, "recv", 21)
        turn = [FIRST, sends, gets]
        ends[rank] = [*turn * turns, *([waits(FIRST)] if rank == 0 else [])]
        if rank == 1:
            ends[rank][-1] = waits(gets)
    for rank in (2, 3):
        turn = [to(rank - 2, rank, "recv", 25), *[CHUNK] * chunks, to(rank, rank - 2, "send", 29)]
        ends[rank] = [*turn * turns, waits(turn[0])]
        if rank == 3:
            ends[rank] = [*turn * (turns - 1), *turn[:-1], *[CHUNK] * (more - 1), waits(CHUNK)]
    return flights(*(ends[rank] for rank in range(4)), code=[LOOP])


@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_the_rank_that_makes_one_more_turn_of_an_inner_loop_than_ever_before_is_named(chunks: int) -> None:
    (finding,) = diagnose(job(chunks, more=1)).findings
    assert (finding.code, finding.ranks) == ("DDP305", (3,))
    assert finding.message.startswith(
        f"rank 3 called all_reduce #{TURNS * chunks + 1} of group last that rank 2 did not"
    )
    assert finding.where[0].line == 13
    assert finding.remedy.startswith("let all ranks make equally many turns")


def test_where_no_turns_are_known_nobody_is_named_by_them() -> None:
    findings = diagnose(job(2, more=1, turns=1)).findings
    assert all(finding.code != "DDP305" for finding in findings)

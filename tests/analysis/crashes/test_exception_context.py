"""A rank that comes apart from its peers while it handles an error: the finding shows the error, which nobody has seen yet."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Handled, RankError, RankExit
from ddpdoctor.evidence.source import Condition
from ddpdoctor.model import Finding
from tests.checks.ddp305_collective_called_by_some import CODE, EXTRA, LAST
from tests.flight_records import STEP, Did, flights, waits

ERROR = RankError(
    type="IndexError",
    message="index out of range",
    stack=(Frame(file="/home/me/job/data.py", line=12, function="tokens"),),
)
END = waits(Did("all_reduce", line=95, sizes=((1,),)))
SAID = "rank 1 called a collective while it handled IndexError: index out of range"


def headline(evidence: Evidence, *, seq: int, rank: int = 1) -> Finding:
    fact = CollectiveCalls(handled=(Handled(group="0", seq=seq, error=ERROR),))
    ranks = (replace(one, facts=(*one.facts, fact)) if one.rank == rank else one for one in evidence.ranks)
    return diagnose(replace(evidence, ranks=tuple(ranks))).findings[0]


def test_a_collective_in_finally_looks_like_a_loop_left_early() -> None:
    found = headline(flights([STEP, LAST], [STEP, END], [STEP, LAST], code=CODE), seq=2)
    assert (found.code, found.ranks, found.details) == ("DDP306", (1,), (SAID,))
    assert (1, 12, "raised here") in [(place.rank, place.line, place.note) for place in found.where]
    assert "finally" in found.remedy


def test_a_collective_in_an_except() -> None:
    found = headline(flights([STEP, LAST], [STEP, EXTRA], [STEP, LAST], code=CODE), seq=2)
    assert (found.code, found.ranks, found.details) == ("DDP305", (1,), (SAID,))


def test_a_handled_error_tells_which_of_two_ranks_is_at_fault() -> None:
    guarded = replace(CODE[1], conditions=(Condition(line=85, test="except IndexError", branch=0),))
    pair = flights([STEP, LAST], [STEP, EXTRA], code=(CODE[0], guarded))
    tied = diagnose(pair).findings[0]
    assert (tied.code, tied.ranks) == ("DDP305", (0, 1))
    assert "no majority" in tied.message
    decided = headline(pair, seq=2)
    assert (decided.code, decided.ranks, decided.details) == ("DDP305", (1,), (SAID,))
    assert "no majority" not in decided.message


@pytest.mark.parametrize(("last", "blamed"), [(9, (1,)), (8, ())])
def test_gloo_ended_the_rank_before_anybody_saw_its_recorder(last: int, blamed: tuple[int, ...]) -> None:
    call = CollectiveCall(op="all_reduce", group="0", seq=last, returned=False)
    fact = CollectiveCalls(calls=(call,), handled=(Handled(group="0", seq=9, error=ERROR),))
    words = "op.preamble.length <= op.nbytes. 528 vs 4. Received data size doesn't match expected size."
    aborted = RankExit(exit_code=-6, tail=(f"[enforce fail at /gloo/transport/tcp/pair.cc:456] {words}",))
    lost = RankFacts(rank=0, host="a", facts=(RankExit(exit_code=-15, ended_by_launcher=True),))
    evidence = Evidence(ranks=(lost, RankFacts(rank=1, host="a", facts=(aborted, fact))), about_job=True)
    found, *_ = diagnose(evidence).findings
    assert (found.code, found.ranks, SAID in found.details) == ("DDP302", blamed, bool(blamed))


def test_an_error_handled_at_another_call_or_by_another_rank_is_not_shown() -> None:
    job = flights([STEP, LAST], [STEP, END], [STEP, LAST], code=CODE)
    for found in (headline(job, seq=1), headline(job, seq=2, rank=0)):
        assert (found.code, found.ranks, found.details) == ("DDP306", (1,), ())

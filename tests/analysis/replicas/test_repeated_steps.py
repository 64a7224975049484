"""An optimizer step that gave other weights, made again on copies: whether it gives the same again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.audited_steps import Recomputed
from tests.analysis.replicas.audited_jobs import healthy, job, step


def repeated(first: str, second: str = "", operation: str = "", failed: str = "") -> Recomputed:
    """A step that gave `first`, and then `second` or the same, when it was made again."""
    return Recomputed(
        first={"w": first, "v": "same"},
        second={"w": second or first, "v": "same"},
        parity={"w": 7, "v": 1},
        operation=operation,
        failed=failed,
    )


def with_repetitions(mine: Recomputed | None, others: Recomputed | None, *, nproc: int) -> Evidence:
    """Rank 1 has other weights after its second step; it and the others have made that step again."""
    flipped = {"after": {"w": 7 ^ 1 << 20, "v": 1}}
    evidence = job([*healthy()[:1], step(1, "a0", "bad", integrity=flipped, recomputed=mine)], nproc=nproc)
    ranks = []
    for facts in evidence.ranks:
        (track,) = facts.facts
        if facts.rank != 1:
            track = replace(track, steps=(track.steps[0], replace(track.steps[1], recomputed=others)))
        ranks.append(replace(facts, facts=(track,)))
    return replace(evidence, ranks=tuple(ranks))


@pytest.mark.parametrize("nproc", [2, 3])
def test_a_step_that_gives_the_weights_of_the_others_when_it_is_made_again(nproc: int) -> None:
    found = diagnose(with_repetitions(repeated("a1"), repeated("a1"), nproc=nproc)).findings[0]
    assert (found.code, found.ranks, found.measured["repeated"]) == ("DDP525", (1,), "once")
    assert found.measured["bits"] == [20]
    assert found.message.endswith("; made again, the step gives rank 1 the weights of the others")


def test_a_step_that_gives_each_rank_its_own_weights_again() -> None:
    found = diagnose(with_repetitions(repeated("bad"), repeated("a1"), nproc=3)).findings[0]
    assert (found.code, found.ranks, found.measured["repeated"]) == ("DDP525", (1,), "again")
    tied = diagnose(with_repetitions(repeated("bad"), repeated("a1"), nproc=2)).findings[0]
    assert tied.ranks == (0, 1)
    assert "no majority" in tied.message


def test_a_rank_that_gets_other_weights_each_time_is_named_with_two_ranks_too() -> None:
    found = diagnose(with_repetitions(repeated("x", "y", "aten.mul_"), repeated("a1"), nproc=2)).findings[0]
    assert (found.ranks, found.measured["cause"], found.measured["repeated"]) == ((1,), "step", "never")
    assert (
        "gives rank 1 other weights each time, first in the result of aten.mul_, the others their own" in found.message
    )


def test_an_operation_that_is_not_deterministic_on_any_rank_is_named_and_no_device() -> None:
    found = diagnose(
        with_repetitions(repeated("x", "y", "aten.rand"), repeated("p", "q", "aten.rand"), nproc=2)
    ).findings[0]
    assert (found.ranks, found.measured["cause"]) == ((0, 1), "nondeterministic")
    assert found.measured["operation"] == "aten.rand"
    assert found.message.endswith(
        "; made again twice, the step gives no rank the same weights, first in the result of aten.rand"
    )


@pytest.mark.parametrize(
    ("mine", "others"),
    [(None, repeated("a1")), (repeated("a1"), repeated("a1", failed="it calls collectives"))],
    ids=["one rank", "failed"],
)
def test_a_step_that_not_all_ranks_have_made_again_is_judged_as_before(
    mine: Recomputed | None, others: Recomputed | None
) -> None:
    found = diagnose(with_repetitions(mine, others, nproc=3)).findings[0]
    assert (found.ranks, found.measured["bits"]) == ((1,), [20])
    assert "repeated" not in found.measured


def test_weights_that_changed_between_forward_and_step_are_no_fault_of_the_step() -> None:
    changed = replace(repeated("bad"), given={"w": "changed"})
    found = diagnose(with_repetitions(changed, replace(repeated("a1"), given={"w": "a0"}), nproc=3)).findings[0]
    assert (found.code, found.ranks) == ("DDP525", (1,))
    assert "repeated" not in found.measured


def test_ranks_that_agree_neither_with_themselves_nor_with_each_other_are_not_told_apart() -> None:
    found = diagnose(with_repetitions(repeated("a2"), repeated("a1"), nproc=2)).findings[0]
    assert found.ranks == (0, 1)
    assert "repeated" not in found.measured

"""What is put down to the hardware, and what is not: as many writes on all ranks, one element, equal inputs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.training_trace import (
    Averaged,
    Gradient,
    Integrity,
    ProbeSeen,
    Recomputed,
    StepSeen,
    Table,
    TensorKind,
    Track,
)

KINDS = (TensorKind(role="parameter", name="w", structure={"dtype": "float32", "shape": "[64]"}),)
TABLES = {
    key: Table(digests={"w": key, "v": "same"}, shapes={"w": (64,), "v": (64,)})
    for key in ("start", "a0", "a1", "a2", "bad", "alone")
}
GRADIENT = Gradient(digest="g", reduced=1.0, local=1.0, count=1, standing="reduced")


def step(number: int, weights: str, after: str, **fields: Any) -> StepSeen:
    own = {"begin": 0, "state": 0, "end": 0, "after": {"w": 7, "v": 1}, **fields.pop("integrity", {})}
    return StepSeen(
        step=number, forwards=number + 1, since=0, weights=weights, after=after, optimizer="SGD", state={"w.momentum": "m"},
        **{"gradients": {"w": GRADIENT}, "integrity": Integrity(**own), **fields},
    )  # fmt: skip


def healthy() -> list[StepSeen]:
    return [step(0, "start", "a0"), step(1, "a0", "a1"), step(2, "a1", "a2")]


def job(
    sick: list[StepSeen], *, nproc: int = 3, every: int = 1, probes: dict[int, ProbeSeen] | None = None
) -> Evidence:
    """Rank 1 has the steps `sick`, the others those of a healthy job."""
    ranks = []
    for rank in range(nproc):
        steps = sick if rank == 1 else healthy()[: len(sick)]
        track = Track(
            method="xxh3", every=every, kinds=KINDS, start="start", tables=TABLES, steps=tuple(steps),
            probes=(probes[rank],) if probes else (),
        )  # fmt: skip
        ranks.append(RankFacts(rank=rank, host="a", facts=(track,)))
    return Evidence(ranks=tuple(ranks), about_job=True)


def headline(evidence: Evidence) -> tuple[str, tuple[int, ...], str]:
    first = diagnose(evidence).findings[0]
    return first.code, first.ranks, str(first.measured.get("cause", ""))


def test_a_step_from_equal_inputs_to_other_weights() -> None:
    sick = [*healthy()[:1], step(1, "a0", "bad", integrity={"after": {"w": 7 ^ 1 << 20, "v": 1}})]
    assert headline(job(sick)) == ("DDP525", (1,), "step")
    assert diagnose(job(sick)).findings[0].measured["bits"] == [20]
    assert headline(job(sick, nproc=2)) == ("DDP525", (0, 1), "step")


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


def test_a_step_in_which_an_operation_wrote_more_is_code() -> None:
    sick = [*healthy()[:1], step(1, "a0", "bad", integrity={"end": 1, "after": {"w": 7 ^ 1 << 20, "v": 1}})]
    assert headline(job(sick))[0] == "DDP503"


MOVED = {"before": {"w": 7 ^ 1 << 35, "v": 1}, "after": {"w": 7 ^ 1 << 35, "v": 1}}


@pytest.mark.parametrize("nproc", [2, 3])
def test_a_bit_of_a_weight_that_nothing_wrote(nproc: int) -> None:
    sick = [*healthy()[:1], step(1, "bad", "bad", integrity=MOVED)]
    assert headline(job(sick, nproc=nproc)) == ("DDP525", (1,), "memory")


@pytest.mark.parametrize(
    "integrity",
    [
        {**MOVED, "begin": 1},  # an operation wrote
        {"before": {"w": 7 ^ 1 << 35 ^ 1, "v": 1}},  # two elements
    ],
)
def test_weights_that_code_wrote(integrity: dict[str, Any]) -> None:
    assert headline(job([*healthy()[:1], step(1, "bad", "bad", integrity=integrity)]))[0] == "DDP509"


def test_an_element_that_changed_between_two_audits() -> None:
    first, *_, last = healthy()
    sick = replace(
        last, weights="bad", after="bad", integrity=Integrity(begin=0, state=0, end=0, after={"w": 7 ^ 0x30, "v": 1})
    )
    evidence = job([first, sick], every=2)
    ranks = [
        replace(facts, facts=(replace(facts.facts[0], steps=(facts.facts[0].steps[0], last)),))
        if facts.rank != 1
        else facts
        for facts in evidence.ranks
    ]
    assert headline(replace(evidence, ranks=tuple(ranks))) == ("DDP525", (1,), "unseen")


def test_state_that_nothing_wrote() -> None:
    sick = [*healthy()[:1], step(1, "a0", "bad")]
    sick[1] = replace(sick[1], state={"w.momentum": "other"})
    assert headline(job(sick)) == ("DDP525", (1,), "state")
    loaded = replace(sick[1], integrity=Integrity(begin=0, state=-5, end=0, after={"w": 7}))
    assert headline(job([sick[0], loaded]))[0] == "DDP507"


def test_a_reduction_with_two_results() -> None:
    own = {"w": Gradient(digest="other", reduced=1.5, local=1.0, count=1, standing="reduced")}
    sick = [*healthy()[:1], step(1, "a0", "bad", gradients=own, integrity={"reduced": {"w": "other"}})]
    evidence = job(sick)
    equal = [replace(one, integrity=replace(one.integrity, reduced={"w": "g"})) for one in healthy()[:2]]  # type: ignore[type-var]
    ranks = tuple(
        replace(facts, facts=(replace(facts.facts[0], steps=tuple(equal)),)) if facts.rank != 1 else facts
        for facts in evidence.ranks
    )
    assert headline(replace(evidence, ranks=ranks))[:2] == ("DDP526", (1,))
    assert headline(evidence)[:2] == ("DDP505", (1,))  # nobody saw the gradients when the backward returned


def probe(digest: str, again: str = "", **fields: Any) -> ProbeSeen:
    outputs = {"a (Linear)": "1", "b (Linear)": digest, "the model (Net)": digest}
    repeated = {**outputs, "b (Linear)": again or digest}
    return ProbeSeen(
        **{"step": 2, "forwards": 3, "weights": "w", "input": "x", "outputs": outputs, "again": repeated, **fields}
    )


def test_a_forward_with_another_result() -> None:
    probes = {0: probe("2"), 1: probe("3", settings={"threads": "8"}), 2: probe("2", settings={"threads": "1"})}
    first = diagnose(job(healthy(), probes=probes)).findings[0]
    assert (first.code, first.ranks, first.measured["tensors"]) == ("DDP527", (1,), ["b (Linear)"])
    assert "threads" in first.message


def test_a_forward_that_does_not_repeat_itself() -> None:
    first = diagnose(job(healthy(), probes={0: probe("2"), 1: probe("2", again="4"), 2: probe("2")})).findings[0]
    assert (first.code, first.ranks) == ("DDP527", (1,))


def test_probes_of_other_weights_or_batches_are_not_compared() -> None:
    for other in ({"weights": "v"}, {"input": "y"}):
        assert diagnose(job(healthy(), probes={0: probe("2"), 1: probe("3", **other), 2: probe("2")})).findings == ()


def local(*, equal: bool = True) -> Evidence:
    """Steps of the ranks' own after step 0, averaged before step 2."""
    averaged = Averaged(made=1, local=0)
    sick = [step(0, "start", "alone"), step(2, "a1" if equal else "bad", "alone", averaging=averaged)]
    evidence = job(sick)
    ranks = tuple(
        replace(facts, facts=(replace(facts.facts[0], steps=(healthy()[0], step(2, "a1", "a2", averaging=averaged))),))
        if facts.rank != 1
        else facts
        for facts in evidence.ranks
    )
    return replace(evidence, ranks=ranks)


def test_steps_between_averagings_are_the_ranks_own() -> None:
    assert diagnose(local()).findings == ()


def test_a_tensor_that_averaging_leaves_out() -> None:
    first = diagnose(local(equal=False)).findings[0]
    assert (first.code, first.ranks, first.measured["step"]) == ("DDP503", (1,), 2)
    assert "right after the weights were averaged" in first.message

"""What is put down to the hardware, and what is not: as many writes on all ranks, one element, equal inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.audited_steps import Gradient, Integrity, StepSeen
from ddpdoctor.evidence.frames import Frame
from tests.analysis.replicas.audited_jobs import GRADIENT, all_with, headline, healthy, job, step


def test_a_step_from_equal_inputs_to_other_weights() -> None:
    sick = [*healthy()[:1], step(1, "a0", "bad", integrity={"after": {"w": 7 ^ 1 << 20, "v": 1}})]
    assert headline(job(sick)) == ("DDP525", (1,), "step")
    assert diagnose(job(sick)).findings[0].measured["bits"] == [20]
    assert headline(job(sick, nproc=2)) == ("DDP525", (0, 1), "step")


def test_a_weight_that_became_nan_between_two_audits_is_not_put_down_to_the_batch() -> None:
    """Afterwards the weights of all ranks are NaN, and no parity tells what differed."""
    first, *_, last = healthy()
    nan = Integrity(begin=0, state=0, end=0, after={"w": 0x7FC00000FFC00001, "v": 1})
    gradient = {"w": Gradient(digest="nan", reduced=float("nan"), local=1.0, count=1, standing="reduced")}
    others = replace(last, after="alone", gradients=gradient, integrity=nan)
    own = {"w": replace(gradient["w"], local=float("nan"))}
    nan_here = replace(nan, after={"w": 0x7FC00000, "v": 1})
    sick = replace(others, weights="bad", gradients=own, not_finite=("w",), integrity=nan_here)
    found = diagnose(all_with([first, sick], [first, others])).findings[0]
    assert (found.code, found.ranks, found.measured["cause"]) == ("DDP517", (1,), "weights")


def test_a_step_with_a_closure_may_follow_the_losses_of_its_rank() -> None:
    everything = [
        *healthy()[:1],
        step(1, "a0", "bad", closure=True, integrity={"after": {"w": 0x123456789ABC, "v": 1}}),
    ]
    assert headline(job(everything))[:2] == ("DDP503", (1,))
    flipped = [*healthy()[:1], step(1, "a0", "bad", closure=True, integrity={"after": {"w": 7 ^ 1 << 20, "v": 1}})]
    assert headline(job(flipped)) == ("DDP525", (1,), "step")


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


def first_step(weights: str, after: str, writes: int = 0, **fields: Any) -> list[StepSeen]:
    """The first step of a job, whose weights operations have written so often since the model was wrapped."""
    word = 7 if weights != "bad" else 7 ^ 1 << 35
    own = {"wrapped": 4, "begin": 4 + writes, "end": 4 + writes, "before": {"w": word, "v": 1}}
    return [step(0, weights, after, integrity={**own, **fields.pop("integrity", {})}, **fields)]


@pytest.mark.parametrize("nproc", [2, 3])
def test_a_bit_that_flips_before_the_first_step(nproc: int) -> None:
    sick, others = first_step("bad", "bad"), first_step("start", "a0")
    assert headline(all_with(sick, others, nproc=nproc)) == ("DDP525", (1,), "memory")
    written = first_step("bad", "bad", writes=1)
    assert headline(all_with(written, others, nproc=nproc))[0] == "DDP509"


def test_an_initialisation_from_the_data_of_each_rank_is_code() -> None:
    """`model.module[2].bias[0] = local_prior` on every rank, after DistributedDataParallel made the weights equal."""
    sick, others = first_step("bad", "bad", writes=1), first_step("a1", "a1", writes=1)
    assert [headline(all_with(sick, others, nproc=nproc))[:2] for nproc in (2, 3)] == [
        ("DDP509", (0, 1)),
        ("DDP509", (1,)),
    ]
    found = diagnose(all_with(first_step("bad", "bad"), first_step("a1", "a1"), nproc=2)).findings[0]
    assert (found.code, found.measured["cause"]) == ("DDP525", "memory")
    assert "PyTorch counted as many writes on all of them since the model was wrapped" in found.message


def test_a_bit_that_flips_in_the_first_step() -> None:
    flipped = {"after": {"w": 7 ^ 1 << 20, "v": 1}}
    sick = first_step("start", "bad", integrity=flipped)
    assert headline(all_with(sick, first_step("start", "a0"))) == ("DDP525", (1,), "step")


def test_weights_that_one_rank_read_otherwise_from_a_checkpoint() -> None:
    loads = {"load": Frame(file="train.py", line=7, function="main")}
    sick, others = first_step("bad", "bad", 6, lines=loads), first_step("a1", "a2", 6, lines=loads)
    found = diagnose(all_with(sick, others)).findings[0]
    assert (found.code, found.ranks) == ("DDP525", (1,))
    assert "w on rank 1 is not what the other ranks loaded (bit 3 of one element)" in found.message
    assert "sha256sum" in (found.remedy or "")
    assert headline(all_with(sick, others, nproc=2))[:2] == ("DDP525", (0, 1))  # nothing tells which of them is right


@pytest.mark.parametrize(("tensors", "code"), [(5, "DDP525"), (1, "DDP507")])
def test_state_that_one_rank_read_otherwise_from_a_checkpoint(tensors: int, code: str) -> None:
    equal = {f"w.{number}": "m" for number in range(tensors)}
    at = {"loaded": Frame(file="train.py", line=8, function="main")}
    sick = first_step("start", "bad", state={**equal, "w.0": "other"}, **at)
    assert headline(all_with(sick, first_step("start", "a0", state=equal, **at)))[:2] == (code, (1,))


def left_out(weights: str, **integrity: Any) -> list[StepSeen]:
    """A step, and one that a GradScaler leaves out."""
    return [*healthy()[:1], step(1, weights, weights, left_out=True, scale=8.0, integrity=integrity)]


def test_a_weight_that_becomes_nan_under_a_gradscaler_which_leaves_out_all_steps_from_then_on() -> None:
    assert headline(all_with(left_out("bad", **MOVED), left_out("a0"))) == ("DDP525", (1,), "memory")
    assert not diagnose(all_with(left_out("a0"), left_out("a0"))).findings


def test_a_reduced_gradient_that_becomes_infinite_makes_one_rank_leave_out_a_step() -> None:
    made = step(1, "a0", "a1", scale=8.0, integrity={"reduced": {"w": "g", "v": "h"}})
    alone = left_out("a0", reduced={"w": "inf", "v": "h"})
    assert headline(all_with(alone, [*healthy()[:1], made]))[:2] == ("DDP526", (1,))
    changed = left_out("a0", reduced={"w": "g", "v": "h"})  # code has changed it after the reduction
    assert headline(all_with(changed, [*healthy()[:1], made])) == ("DDP510", (1,), "found_inf")


@pytest.mark.parametrize(("of_torch", "code"), [(True, "DDP526"), (False, "DDP505")])
def test_a_reduction_by_a_communication_hook(of_torch: bool, code: str) -> None:
    hook = {"comm_hook": Frame(file="train.py", line=3, function="main"), "hook_of_torch": of_torch}
    own = {"w": Gradient(digest="other", reduced=1.5, local=1.0, count=1, standing="reduced")}
    sick = step(1, "a0", "bad", gradients=own, integrity={"reduced": {"w": "other"}}, **hook)
    others = step(1, "a0", "a1", integrity={"reduced": {"w": "g"}}, **hook)
    assert headline(all_with([*healthy()[:1], sick], [*healthy()[:1], others]))[:2] == (code, (1,))


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


CLIP, OWN = (Frame(file="train.py", line=line, function="main") for line in (30, 31))


def gradients_that_part(
    nproc: int = 3, *, writes: int | None = 1, others: int = 1, lines: Sequence[Frame] = (), **fields: Any
) -> Evidence:
    """The gradient of `w` is equal when the backward returns, and at the step rank 1 holds another one.

    Where `lines` of rank 1 were seen to change gradients, those of the others are `CLIP`, if it is one of these.
    """
    flipped = {"digest": "other", "reduced": 1.5, "parity": 5 ^ 1 << 20, **fields}
    sick = replace(GRADIENT, **flipped)
    return all_with(
        [
            step(
                1, "a0", "bad", gradients={"w": sick}, writes={"gradients": tuple(lines)},
                integrity={"reduced": {"w": "g"}, "gradient_writes": writes},
            )
        ],
        [
            step(
                1, "a0", "a1", gradients={"w": replace(GRADIENT, parity=5)},
                writes={"gradients": tuple(line for line in lines if line is CLIP)},
                integrity={"reduced": {"w": "g"}, "gradient_writes": others},
            )
        ],
        nproc=nproc,
    )  # fmt: skip


@pytest.mark.parametrize("nproc", [2, 3])
def test_one_element_of_a_gradient_that_changed_after_the_reduction(nproc: int) -> None:
    evidence = gradients_that_part(nproc)
    assert headline(evidence) == ("DDP525", (1,), "gradient")
    first = diagnose(evidence).findings[0]
    assert first.measured["bits"] == [20]
    assert "the averaged gradient of w changed on rank 1" in first.message


@pytest.mark.parametrize(
    "fields",
    [
        {"writes": 2},  # an operation more on this rank
        {"writes": None},  # gradients were replaced
        {"parity": 5 ^ 3 << 31},  # two elements
        {"parity": None},
    ],
)
def test_a_gradient_that_code_may_have_changed(fields: dict[str, Any]) -> None:
    assert headline(gradients_that_part(**fields))[:2] == ("DDP505", (1,))


@pytest.mark.parametrize(("line", "shown"), [(OWN, [(31, "ran while it changed")]), (CLIP, [])])
def test_a_bit_of_a_gradient_that_changed_while_lines_were_looked_at(line: Frame, shown: list[tuple[int, str]]) -> None:
    """Regression: the line that ran while a bit flipped was blamed for it."""
    first = diagnose(gradients_that_part(lines=[line])).findings[0]
    assert (first.code, first.ranks) == ("DDP525", (1,))
    assert [(where.line, where.note) for where in first.where] == shown


@pytest.mark.parametrize("line", [OWN, CLIP])
def test_a_line_that_was_seen_to_change_several_bits_made_the_change(line: Frame) -> None:
    assert headline(gradients_that_part(parity=5 ^ 3 << 20)) == ("DDP525", (1,), "gradient")
    assert headline(gradients_that_part(parity=5 ^ 3 << 20, lines=[line]))[:2] == ("DDP505", (1,))

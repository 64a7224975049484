"""Weights that were equal at the forward, and differ when the optimizer gets them: what is code, and what may be the hardware."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.model import Report
from tests.analysis.replicas.audited_jobs import all_with, headline, healthy, step

SAME = {"w": "a0", "v": "same"}
WORDS = {"w": 7, "v": 1}
MANY = 0x123456789ABC
"""What several elements that differ make of a parity."""


def second_step(after: str, parity: int = 7, **integrity: Any) -> list[StepSeen]:
    """Two steps, of which the second ends with the weights `after`, whose parity is `parity`."""
    return [*healthy()[:1], step(1, "a0", after, integrity={"after": {"w": parity, "v": 1}, **integrity})]


@pytest.mark.parametrize("others", [{}, {"given": SAME, "given_parities": WORDS}], ids=["not looked at", "looked at"])
@pytest.mark.parametrize("nproc", [2, 3])
def test_a_rank_that_writes_weights_between_forward_and_step_is_named(others: dict[str, Any], nproc: int) -> None:
    wrote = second_step("bad", MANY, end=1, given={"w": "other", "v": "same"}, given_parities={"w": MANY, "v": 1})
    found = headline(all_with(wrote, second_step("a1", **others), nproc=nproc))
    assert found == ("DDP509", (1,), "between forward and step")


def test_the_line_that_wrote_them_is_shown() -> None:
    first, second = second_step("bad", MANY, end=1, given={"w": "other", "v": "same"})
    line = Frame(file="train.py", line=7, function="main")
    sick = [first, replace(second, writes={"given weights": (line,)})]
    (place,) = diagnose(all_with(sick, second_step("a1"))).findings[0].where
    assert (place.rank, place.file, place.line, place.note) == (1, "train.py", 7, "writes the weights")


@pytest.mark.parametrize(
    ("partly", "note"), [(False, "writes the weights"), (True, "the optimizer step after the write")]
)
def test_a_line_that_all_ranks_ran_is_not_blamed_where_lines_may_be_missing(partly: bool, note: str) -> None:
    line, stepped = (Frame(file="train.py", line=number, function="main") for number in (7, 9))
    seen = {"writes": {"given weights": (line,)}, "line": stepped}
    first, second = second_step(
        "bad", MANY, end=1, given={"w": "other", "v": "same"}, given_parities={"w": MANY, "v": 1}
    )
    _, other = second_step("a1", end=1, given={"w": "third", "v": "same"}, given_parities=WORDS)
    sick = [first, replace(second, partly_watched=partly, **seen)]
    finding = diagnose(all_with(sick, [first, replace(other, **seen)])).findings[0]
    assert (finding.code, finding.ranks, finding.where[0].note) == ("DDP509", (1,), note)


def test_weights_that_every_rank_wrote_in_another_way_are_code() -> None:
    """PyTorch counts as many writes on all of them."""
    sick = second_step("bad", MANY, end=1, given={"w": "other", "v": "same"}, given_parities={"w": MANY, "v": 1})
    others = second_step("a1", end=1, given={"w": "third", "v": "same"}, given_parities=WORDS)
    assert headline(all_with(sick, others))[:2] == ("DDP509", (1,))
    assert headline(all_with(sick, others, nproc=2))[:2] == ("DDP509", (0, 1))


def test_a_bit_that_flips_in_a_step_whose_weights_all_ranks_wrote_alike() -> None:
    alike = {"end": 1, "given": SAME, "given_parities": WORDS}
    sick = second_step("bad", 7 ^ 1 << 20, **alike)
    assert headline(all_with(sick, second_step("a1", **alike))) == ("DDP525", (1,), "step")


def test_one_element_that_differs_before_the_step_may_be_the_hardware() -> None:
    flipped = {"given": {"w": "other", "v": "same"}, "given_parities": {"w": 7 ^ 1 << 20, "v": 1}}
    sick = second_step("bad", 7 ^ 1 << 20, **flipped)
    others = second_step("a1", given=SAME, given_parities=WORDS)
    for nproc in (2, 3):
        found = diagnose(all_with(sick, others, nproc=nproc)).findings[0]
        assert (found.code, found.ranks, found.measured["cause"]) == ("DDP525", (1,), "memory")
        assert "w changed on rank 1 (bit 20 of one element) between the forward and the optimizer step" in found.message


LINE = Frame(file="train.py", line=7, function="main")
ONE_ELEMENT = {"given": {"w": "other", "v": "same"}, "given_parities": {"w": 7 ^ 1 << 20, "v": 1}}
SOME_BITS = {"w": 7 ^ 0b1011 << 20, "v": 1}


@pytest.mark.parametrize("nproc", [2, 3])
def test_one_element_that_a_line_is_known_to_have_written_is_code(nproc: int) -> None:
    """`weight.data[3, 5] += 0.5` on rank 1, in a step in which lines are looked for."""
    first, second = second_step("bad", 7 ^ 0b1011 << 20, given=ONE_ELEMENT["given"], given_parities=SOME_BITS)
    sick = [first, replace(second, writes={"given weights": (LINE,)})]
    finding = diagnose(all_with(sick, second_step("a1", given=SAME, given_parities=WORDS), nproc=nproc)).findings[0]
    assert (finding.code, finding.ranks, finding.where[0].line) == ("DDP509", (1,), 7)


@pytest.mark.parametrize("nproc", [2, 3])
def test_one_bit_that_changed_while_a_line_ran_is_no_code(nproc: int) -> None:
    first, second = second_step("bad", 7 ^ 1 << 20, **ONE_ELEMENT)
    sick = [first, replace(second, writes={"given weights": (LINE,)})]
    others = second_step("a1", given=SAME, given_parities=WORDS)
    assert_one_bit_by_itself(diagnose(all_with(sick, others, nproc=nproc)))


def assert_one_bit_by_itself(report: Report) -> None:
    """DDP525 shows the line, and says what it means if the line writes the element."""
    finding = report.findings[0]
    assert (finding.code, finding.ranks, finding.where[0].line) == ("DDP525", (1,), 7)
    assert finding.where[0].note == "ran while it changed"
    assert finding.remedy.startswith("if the line shown writes this element itself")


def test_one_element_that_pytorch_counted_on_one_rank_only_is_code() -> None:
    """`with torch.no_grad(): weight[3, 5] += 0.5`, in a step in which all ranks look at the weights."""
    sick = second_step("bad", 7 ^ 1 << 20, end=1, **ONE_ELEMENT)
    others = second_step("a1", given=SAME, given_parities=WORDS)
    assert headline(all_with(sick, others)) == ("DDP509", (1,), "between forward and step")


def test_one_element_that_every_rank_writes_from_its_own_data_is_code() -> None:
    sick = second_step("bad", 7 ^ 1 << 20, **ONE_ELEMENT)
    others = second_step("a1", given={"w": "third", "v": "same"}, given_parities=WORDS)
    assert headline(all_with(sick, others)) == ("DDP509", (1,), "between forward and step")


def test_one_element_that_a_line_wrote_before_the_forward_is_code() -> None:
    moved = {"before": {"w": 7 ^ 0b101 << 35, "v": 1}, "after": {"w": 7 ^ 0b101 << 35, "v": 1}}
    sick = [*healthy()[:1], step(1, "bad", "bad", integrity=moved, writes={"weights": (LINE,)})]
    finding = diagnose(all_with(sick, healthy()[:2])).findings[0]
    assert (finding.code, finding.ranks, finding.where[0].line) == ("DDP509", (1,), 7)


def test_one_bit_that_changed_while_a_line_before_the_forward_ran_is_no_code() -> None:
    moved = {"before": {"w": 7 ^ 1 << 35, "v": 1}, "after": {"w": 7 ^ 1 << 35, "v": 1}}
    sick = [*healthy()[:1], step(1, "bad", "bad", integrity=moved, writes={"weights": (LINE,)})]
    assert_one_bit_by_itself(diagnose(all_with(sick, healthy()[:2])))


def test_weights_that_differ_on_every_rank_are_no_fault_of_a_step_whose_weights_nobody_looked_at() -> None:
    """`weight.data.add_(noise)` with a seed of each rank, between the backward and the step."""

    def evidence(**looked: Any) -> Evidence:
        ranks = []
        for facts, after in zip(all_with(second_step("a1"), second_step("a1")).ranks, ("a1", "a2", "bad"), strict=True):
            (track,) = facts.facts
            steps = tuple(second_step(after, MANY, **looked))
            ranks.append(replace(facts, facts=(replace(track, steps=steps),)))
        return Evidence(ranks=tuple(ranks), about_job=True)

    assert headline(evidence())[0] == "DDP503"
    assert headline(evidence(given=SAME, given_parities=WORDS))[::2] == ("DDP525", "nondeterministic")


def test_several_elements_are_put_down_to_the_step_only_where_its_weights_were_looked_at() -> None:
    looked = {"given": SAME, "given_parities": WORDS}
    assert headline(all_with(second_step("bad", MANY), second_step("a1")))[:2] == ("DDP503", (1,))
    sick, others = second_step("bad", MANY, **looked), second_step("a1", **looked)
    assert headline(all_with(sick, others)) == ("DDP525", (1,), "step")


def test_equal_writes_that_give_equal_weights_are_healthy() -> None:
    wrote = second_step("a1", end=1, given={"w": "other", "v": "same"}, given_parities={"w": MANY, "v": 1})
    assert not diagnose(all_with(wrote, wrote)).findings


def test_a_rank_that_did_not_look_may_have_written_unseen_as_the_others_did() -> None:
    """A momentum encoder (`k.data = ...`) in the forward of all ranks; only one has looked, and PyTorch counts no write."""
    written = {"given": {"w": "other", "v": "same"}, "given_parities": {"w": MANY, "v": 1}}
    healthy_steps = second_step("a1")
    assert not diagnose(all_with(second_step("a1", **written), healthy_steps)).findings
    found = headline(all_with(second_step("bad", MANY, **written), healthy_steps))
    assert found != ("DDP509", (1,), "between forward and step")  # it may as well have been the step

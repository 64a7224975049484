"""Ranks whose modules are in evaluation mode where those of the others are not."""

from __future__ import annotations

from typing import Any

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from tests.audited_steps import Make, found, job_of


def in_modes(first: dict[int, str], then: dict[int, str]) -> Make:
    """Ranks with these modules in evaluation mode at first, and from step 2 on."""

    def make(rank: int, step: int) -> dict[str, Any]:
        told = (then if step > 1 else first).get(rank, "")
        return {"modes": {"": len(told)} if told else {}, "evaluating": told}

    return make


@pytest.mark.parametrize("nproc", [2, 3])
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_comes_to_evaluation_mode_is_named_with_its_forward(rank: int, nproc: int) -> None:
    assert found(in_modes({}, {rank: "the whole model"}), nproc=nproc) == [f"DDP529 [{rank}] 5"]


def test_the_line_that_set_evaluation_mode_is_shown_where_the_other_ranks_are_in_training_mode() -> None:
    line = Frame(file="train.py", line=44, function="preview")

    def make(first: dict[int, str], then: dict[int, str]) -> Make:
        modes = in_modes(first, then)
        return lambda rank, step: {
            **modes(rank, step),
            **({"lines": {"eval": line}} if modes(rank, step)["modes"] else {}),
        }

    (finding,) = diagnose(job_of(make({}, {1: "bn"}))).findings
    assert [(where.rank, where.line, where.note) for where in finding.where] == [
        (1, 44, "puts them into evaluation mode")
    ]
    (finding,) = diagnose(job_of(make({}, dict.fromkeys((0, 1), "bn")))).findings
    assert {where.line for where in finding.where} == {44}
    everywhere = dict.fromkeys(range(3), "the whole model")
    (finding,) = diagnose(job_of(make(everywhere, everywhere | {0: "a part"}))).findings
    assert 44 not in {where.line for where in finding.where}, "rank 0 has left evaluation mode"


def test_a_rank_that_leaves_evaluation_mode_alone_is_named_also_by_two() -> None:
    everywhere = {0: "the whole model", 1: "the whole model"}
    assert found(in_modes(everywhere, {1: "the whole model"}), nproc=2) == ["DDP529 [0] 5"]


def test_modes_that_differ_from_the_beginning_are_decided_by_the_majority() -> None:
    assert found(in_modes({1: "bn"}, {1: "bn"})) == ["DDP529 [1] 5"]
    assert found(in_modes({1: "bn"}, {1: "bn"}), nproc=2) == ["DDP529 [0, 1] 5"]


def test_the_same_modules_in_evaluation_mode_everywhere_are_no_finding() -> None:
    everywhere = dict.fromkeys(range(3), "bn")
    assert found(in_modes(everywhere, everywhere)) == []
    assert found(in_modes({}, everywhere)) == []

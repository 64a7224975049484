"""Each rank skips another step: DDP510 names the step that was skipped first, and not the number of steps at the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import OptimizerSteps, Table, Track

TABLES = {"w": Table(digests={"w": "w"}, shapes={"w": (1,)})}


def job(*stepped: Sequence[int], forwards: int = 8) -> list[str]:
    """The messages of DDP510 for ranks that step after these forwards."""
    tracks = [
        Track(
            method="linear", every=1, interval=1, start="w", tables=TABLES, steps_made=len(after), forwards_made=forwards,
            steps=tuple(
                StepSeen(step=step, forwards=forward, since=0, weights="w", after="w", settings={})
                for step, forward in enumerate(after)
            ),
        )
        for after in stepped
    ]  # fmt: skip
    ranks = tuple(RankFacts(rank=rank, host="a", facts=(track,)) for rank, track in enumerate(tracks))
    report = diagnose(Evidence(ranks=ranks, about_job=True))
    return [finding.message for finding in report.findings if finding.code == "DDP510"]


def test_a_rank_that_made_more_steps_in_the_end_is_named_for_the_step_that_it_skipped_first() -> None:
    assert job([1, 2, 3], [1, 2, 4, 5], [1, 2, 3]) == [
        "rank 1 skipped step 2 of 4: optimizer steps before the same forward: 3 on ranks 0,2 and 2 on rank 1"
    ]


def test_of_two_ranks_neither_is_named() -> None:
    (message,) = job([1, 2, 3], [1, 2, 4, 5])
    assert message.startswith("ranks 0-1 skipped step 2 of 4: ")
    assert message.endswith("; no majority: either side may be at fault")


@pytest.mark.parametrize("stepped", [[[1, 2, 3]] * 3, [[1, 2]] * 2])
def test_ranks_that_skip_alike_are_healthy(stepped: list[list[int]]) -> None:
    assert job(*stepped) == []


def with_two_optimizers(*made: tuple[int, int]) -> tuple[str, tuple[int, ...], set[int]]:
    """DDP510's message, ranks and lines for ranks that made so many steps with each of two optimizers, and were seen in none."""
    tracks = [
        Track(
            method="linear", every=0, interval=64, start="w", tables=TABLES, steps_made=sum(steps), forwards_made=4,
            by_optimizer=tuple(
                OptimizerSteps(name=name, steps=count, first=Frame(file="train.py", line=line, function="update"))
                for name, count, line in zip(("SGD", "AdamW"), steps, (68, 69), strict=True)
            ),
        )
        for steps in made
    ]  # fmt: skip
    ranks = tuple(RankFacts(rank=rank, host="a", facts=(track,)) for rank, track in enumerate(tracks))
    (found,) = (one for one in diagnose(Evidence(ranks=ranks, about_job=True)).findings if one.code == "DDP510")
    return found.message, found.ranks, {where.line for where in found.where}


def test_of_several_optimizers_the_one_whose_step_was_skipped_is_named() -> None:
    assert with_two_optimizers((4, 4), (4, 4), (4, 3)) == (
        "rank 2 skipped a step of optimizer 2 of 2 (AdamW): its steps in all: 4 on ranks 0-1 and 3 on rank 2", (2,), {69}
    )  # fmt: skip


def test_of_two_ranks_the_one_is_named_whose_optimizer_stepped_less_often_than_the_other_one() -> None:
    assert with_two_optimizers((4, 3), (4, 4))[1:] == ((0,), {69})
    assert with_two_optimizers((4, 2), (4, 3))[1:] == ((0, 1), {69})

"""Each rank skips another step: DDP510 names the step that was skipped first, and not the number of steps at the end."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.audited_steps import StepSeen
from ddpdoctor.evidence.training_trace import Table, Track

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

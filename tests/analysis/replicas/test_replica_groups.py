"""Ranks are compared with their replicas: a rank's peers in the process group of its wrapper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.replicas.replica_groups import of_each_group, replica_groups
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.model import SkipCheck
from tests.analysis.replicas.tracking import track

STAGES = {0: {0, 2}, 1: {1, 3}, 2: {0, 2}, 3: {1, 3}}


def tracks(members: dict[int, set[int] | None]) -> dict[int, Track]:
    return {
        rank: Track(method="xxh3", every=1, replicas=None if own is None else frozenset(own))
        for rank, own in members.items()
    }


@pytest.mark.parametrize(
    ("members", "groups"),
    [
        (STAGES, [[0, 2], [1, 3]]),
        (dict.fromkeys(range(3)), [[0, 1, 2]]),
        ({0: {0, 1}, 1: {0, 1}, 2: None}, [[0, 1], [2]]),  # one that wraps nothing
        ({0: {0, 1}, 1: {0, 1, 2}, 2: {0, 1, 2}}, [[0, 1, 2]]),  # they do not agree
        ({0: {0, 2}, 2: {0, 2}}, [[0, 2]]),
        ({0: {0, 1}, 2: {2, 3}}, [[0], [2]]),  # ranks 1 and 3 left no trace
    ],
)
def test_ranks_are_grouped_as_their_wrappers_tell_of_each_other(
    members: dict[int, set[int] | None], groups: list[list[int]]
) -> None:
    assert [sorted(group) for group in replica_groups(tracks(members))] == groups


def test_a_group_of_one_rank_is_not_compared() -> None:
    assert of_each_group(tracks({0: {0, 1}, 1: {0, 1}, 2: {2}}), sorted) == [[0, 1]]
    with pytest.raises(SkipCheck, match="no two ranks hold replicas"):
        of_each_group(tracks({0: {0}, 1: {1}}), sorted)


def stages(*weights: str) -> list[str]:
    """Code, ranks and message of what is found in two stages of two replicas with these weights after each of two steps."""
    ranks = tuple(
        RankFacts(
            rank=rank,
            host="a",
            facts=(
                replace(
                    track(["after a step", own], {}, every=1, steps=None, start=f"stage {rank % 2}"),
                    replicas=frozenset(STAGES[rank]),
                ),
            ),
        )
        for rank, own in enumerate(weights)
    )
    report = diagnose(Evidence(ranks=ranks, about_job=True))
    return [f"{one.code} {list(one.ranks)}" for one in report.findings]


def test_stages_of_a_pipeline_may_hold_other_weights() -> None:
    assert not stages("first", "second", "first", "second")


def test_a_replica_that_differs_is_found_in_the_second_group_as_well() -> None:
    assert stages("first", "second", "first", "another") == ["DDP503 [1, 3]"]

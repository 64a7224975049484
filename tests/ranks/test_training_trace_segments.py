"""The trace of a long run: bounded on disk, and read as one trace of the part that all ranks have kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.ranks.training_trace_reader import read_tracks
from tests.training_traces import TracedRank, traced_ranks

SEGMENT_BYTES = 1 << 14


@pytest.fixture
def rank_of(tmp_path: Path) -> Iterator[Callable[[int], TracedRank]]:
    with traced_ranks(tmp_path, segment_bytes=SEGMENT_BYTES) as make:
        yield make


def tracks(folder: Path) -> list[Track]:
    return [fact for rank in read_tracks(folder) for fact in rank.facts if isinstance(fact, Track)]


@pytest.mark.parametrize("steps", [200, 2000])
def test_a_trace_of_any_length_needs_two_segments(
    rank_of: Callable[[int], TracedRank], tmp_path: Path, steps: int
) -> None:
    rank = rank_of(0)
    for number in range(steps):
        rank.step(number)
    files = [*tmp_path.iterdir()]
    assert len(files) == 2
    assert sum(file.stat().st_size for file in files) < 2 * SEGMENT_BYTES + 4096


def test_segments_are_one_trace_that_ends_with_the_last_step(
    rank_of: Callable[[int], TracedRank], tmp_path: Path
) -> None:
    rank = rank_of(0)
    for number in range(300):
        rank.step(number)
    (track,) = tracks(tmp_path)
    numbers = [step.step for step in track.steps]
    assert numbers == [*range(numbers[0], 300)]
    assert 0 < numbers[0] < 280
    assert [kind.name for kind in track.kinds] == ["w"], "each segment begins with the models; they are read once"
    assert {step.weights for step in track.steps} <= {*track.tables}


def test_of_ranks_that_kept_different_parts_the_common_part_is_read(
    rank_of: Callable[[int], TracedRank], tmp_path: Path
) -> None:
    brief, verbose = map(rank_of, (0, 1))
    for number in range(100):
        for rank, filler in ((brief, ""), (verbose, "x" * 900)):
            rank.evaluate(number)
            rank.step(number, filler=filler)
    both = tracks(tmp_path)
    assert len({tuple(step.key for step in track.steps) for track in both}) == 1
    assert len({tuple(one.step for one in track.evaluations) for track in both}) == 1
    assert 0 < len(both[0].steps) < 60


def test_a_short_trace_stays_whole(rank_of: Callable[[int], TracedRank], tmp_path: Path) -> None:
    for number in (0, 1):
        rank = rank_of(number)
        for step in range(3 + number):
            rank.step(step)
    assert [len(track.steps) for track in tracks(tmp_path)] == [3, 4]

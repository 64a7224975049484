"""The trace of a long run: bounded on disk, and read as one trace of the part that all ranks have kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.schema.training_trace import segment_name
from ddpdoctor.agent.inside.trace_writer import KEPT_SEGMENTS, SEGMENT_BYTES
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.ranks.training_trace_reader import read_tracks
from tests.training_traces import TracedRank, traced_ranks

SEGMENT_SECONDS = 1e-9


@pytest.fixture
def rank_of(tmp_path: Path) -> Iterator[Callable[[int], TracedRank]]:
    with traced_ranks(tmp_path, segment_seconds=SEGMENT_SECONDS) as make:
        yield make


def space(folder: Path) -> int:
    """The bytes that all files take."""
    return sum(file.stat().st_size for file in folder.iterdir())


def tracks(folder: Path) -> list[Track]:
    return [fact for rank in read_tracks(folder) for fact in rank.facts if isinstance(fact, Track)]


@pytest.mark.parametrize("steps", [200, 2000])
def test_a_trace_of_any_length_needs_the_same_space(
    rank_of: Callable[[int], TracedRank], tmp_path: Path, steps: int
) -> None:
    rank = rank_of(0)
    for number in range(steps):
        rank.step(number)
    files = [*tmp_path.iterdir()]
    assert len(files) == KEPT_SEGMENTS
    assert space(tmp_path) == KEPT_SEGMENTS * SEGMENT_BYTES


def test_a_trace_takes_its_space_at_once_and_gives_back_at_its_end_what_it_did_not_need(
    rank_of: Callable[[int], TracedRank], tmp_path: Path
) -> None:
    rank = rank_of(0)
    for number in range(100):
        rank.step(number)
        assert space(tmp_path) == KEPT_SEGMENTS * SEGMENT_BYTES
    rank.close()
    assert space(tmp_path) < KEPT_SEGMENTS * SEGMENT_BYTES - SEGMENT_BYTES / 2


def test_a_record_that_is_being_written_is_none(rank_of: Callable[[int], TracedRank], tmp_path: Path) -> None:
    rank = rank_of(0)
    for number in range(3):
        rank.step(number)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    written = whole.rstrip(b"\0")
    for torn in (written[:-1], written[:-1].ljust(len(whole), b"\0"), written[:-40].ljust(len(whole), b"\0")):
        file.write_bytes(torn)
        (track,) = tracks(tmp_path)
        assert [step.step for step in track.steps] == [0, 1]


def test_segments_are_one_trace_that_ends_with_the_last_step(
    rank_of: Callable[[int], TracedRank], tmp_path: Path
) -> None:
    rank = rank_of(0)
    for number in range(300):
        rank.step(number)
    (track,) = tracks(tmp_path)
    numbers = [step.step for step in track.steps]
    assert numbers[:32] == [*range(32)]
    assert numbers[32:] == [*range(numbers[32], 300)]
    assert 200 < numbers[32] < 280
    assert [kind.name for kind in track.kinds] == ["w"], "each segment begins with the models; they are read once"
    assert {step.weights for step in track.steps} <= {*track.tables}


def test_of_ranks_that_kept_different_parts_the_common_part_is_read(
    rank_of: Callable[[int], TracedRank], tmp_path: Path
) -> None:
    brief, verbose = map(rank_of, (0, 1))
    for number in range(200):
        for rank in (brief, verbose):
            rank.evaluate(number)
            if rank is verbose or number % 4 == 0:
                rank.step(number)
    both = tracks(tmp_path)
    kept = [{step.step for step in track.steps} for track in both]
    assert kept[0] & kept[1] == {*range(0, 32, 4), *(step for step in kept[1] if step >= 64 and step % 4 == 0)}
    assert len({tuple(one.step for one in track.evaluations) for track in both}) == 1


def test_passes_evaluations_and_mistakes_are_kept_when_the_steps_beside_them_are_gone(
    rank_of: Callable[[int], TracedRank], tmp_path: Path
) -> None:
    for rank in map(rank_of, (0, 1)):
        for number in range(3):
            rank.evaluate(number)
            rank.drop_a_handle(number)
            rank.finish_pass(number)
        for number in range(3, 300):
            rank.step(number)
        tmp_path.joinpath(f"{rank.process.pid}.{segment_name(0)}").unlink()  # it holds them all
    for track in tracks(tmp_path):
        assert min(step.step for step in track.steps) > 200
        assert [epoch.number for epoch in track.epochs] == [1, 2]
        assert [one.step for one in track.evaluations] == [2]
        assert [one.step for one in track.unwaited] == [0]


def test_a_short_trace_stays_whole(rank_of: Callable[[int], TracedRank], tmp_path: Path) -> None:
    for number in (0, 1):
        rank = rank_of(number)
        for step in range(3 + number):
            rank.step(step)
    assert [len(track.steps) for track in tracks(tmp_path)] == [3, 4]

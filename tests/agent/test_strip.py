"""What a rank writes as it goes is readable from outside, whatever becomes of the rank."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.log import Log
from ddpdoctor.agent.inside.rank import Rank
from ddpdoctor.agent.inside.strip import RING, Strip, read_header, read_records
from ddpdoctor.collect.agents import find_ranks
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import StepMark
from ddpdoctor.evidence.recorder import State

NAMES = (
    (1, "op", "all_reduce"),
    (2, "group", "0", "default_pg", "gloo"),
    (3, "/job/train.py", 61, "train_step"),
    (4, "reduce", "MAX"),
    (5, "tensor", "3,4", "float32"),
    (6, "op", "new_group"),
    (7, "members", "0,2"),
    (8, "mark", "batch"),
    (9, "data", 1234),
    (10, "mark", "forward"),
    (11, "data", 5678),
)


@pytest.fixture
def strip(tmp_path: Path) -> Strip:
    (tmp_path / "77.names").write_text("".join(json.dumps(name) + "\n" for name in NAMES) + '[12, "op", "to')
    return Strip(str(tmp_path / "77.strip"), rank=3, world_size=4, restart=0)


def test_calls_come_back_as_they_were_made(strip: Strip, tmp_path: Path) -> None:
    strip.end(strip.begin(1, 2, 3, seq=41, root=2, reduce_op=4, tensors=5))
    strip.begin(6, 7, 3, seq=-1)
    strip.step()
    (rank,) = find_ranks(tmp_path)
    assert (rank.rank, rank.pid, rank.steps().steps) == (3, 77, 1)
    calls = rank.calls()
    (call,) = calls.calls
    assert (call.op, call.group, call.seq, call.root, call.reduce_op, call.returned) == (
        "all_reduce", "0", 41, 2, "MAX", True,
    )  # fmt: skip
    assert call.place == Frame(file="/job/train.py", line=61, function="train_step")
    (new_group,) = calls.new_groups
    assert (new_group.ranks, new_group.returned) == ((0, 2), False)


def test_a_reduce_operation_that_comes_late_in_a_job_of_many_shapes_is_recorded(tmp_path: Path) -> None:
    """One byte holds its number: it is given out before those of places and shapes."""
    rank = Rank(str(tmp_path))
    log = Log(rank)
    for length in range(300):
        log.number("tensor", str(length), "float32")
    log.strip.begin(log.number("op", "all_reduce"), 0, 0, seq=0, reduce_op=log.number("reduce", "MAX"))
    log.strip.place(0, 1)
    log._names.close()
    (found,) = find_ranks(tmp_path)
    assert [call.reduce_op for call in found.calls().calls] == ["MAX"]


def test_the_last_calls_stand_in_for_a_recorder_that_is_lost(strip: Strip, tmp_path: Path) -> None:
    strip.begin(1, 2, 3, seq=41, reduce_op=4, tensors=5)
    strip.begin(1, 2, 3, seq=42)
    record = find_ranks(tmp_path)[0].last_calls()
    assert record is not None
    assert (record.seq, record.state) == ((41,), (State.SCHEDULED,)), "a call without tensors is a gap"
    assert (record.calls[0].op, record.calls[0].input_sizes, record.calls[0].input_dtypes) == (
        "all_reduce", ((3, 4),), ("Float",),
    )  # fmt: skip
    assert record.stack_of(0) == (Frame(file="/job/train.py", line=61, function="train_step"),)


def test_iterations_are_the_batches_of_the_data_that_is_trained_on(strip: Strip, tmp_path: Path) -> None:
    for iteration in (1, 2):
        strip.mark(8, 9, iteration, seq=10 * iteration, turn=iteration)
        strip.mark(10, 0, iteration, seq=10 * iteration)
    for iteration in (1, 2, 3):
        strip.mark(8, 11, iteration, seq=20)  # an evaluation on this rank alone
    assert find_ranks(tmp_path)[0].calls().steps == (
        StepMark(iteration=1, seq=10, in_pass=1),
        StepMark(iteration=2, seq=20, in_pass=2),
    )


def test_a_forward_keeps_the_turn_of_its_loop(strip: Strip, tmp_path: Path) -> None:
    for number, turn in ((1, 0), (2, None), (3, 7)):
        strip.mark(10, 3, number, seq=0, turn=turn)
    assert [forward.turn for forward in find_ranks(tmp_path)[0].calls().forwards] == [0, None, 7]


def test_the_ring_keeps_the_latest(strip: Strip, tmp_path: Path) -> None:
    for seq in range(RING + 5):
        strip.end(strip.begin(1, 2, 3, seq=seq))
    data = (tmp_path / "77.strip").read_bytes()
    records = read_records(data)
    assert (len(records), records[0].seq, records[-1].seq) == (RING, 5, RING + 4)


def test_a_rank_that_is_numbered_anew_takes_the_place_of_the_one_that_had_its_seat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(pid: int, rank: int, seat: str) -> None:
        monkeypatch.setenv("LOCAL_RANK", seat)
        Strip(str(tmp_path / f"{pid}.strip"), rank=rank, world_size=4, restart=0)
        os.utime(tmp_path / f"{pid}.strip")  # what is written last is the youngest

    for pid, rank, seat in ((71, 2, "0"), (72, 3, "1"), (81, 0, "0")):
        start(pid, rank, seat)
    assert [(found.rank, found.pid) for found in find_ranks(tmp_path)] == [(0, 81), (3, 72)]
    start(82, 1, "1")
    assert [(found.rank, found.pid) for found in find_ranks(tmp_path)] == [(0, 81), (1, 82)]
    start(91, 3, "")  # without a launcher's seat the number is all there is
    assert [(found.rank, found.pid) for found in find_ranks(tmp_path)] == [(0, 81), (1, 82), (3, 91)]


@pytest.mark.parametrize("data", [b"", b"ddpstrip", b"x" * 4096], ids=["empty", "short", "foreign"])
def test_what_is_no_strip_holds_nothing(data: bytes) -> None:
    assert read_header(data) is None
    assert read_records(data) == ()

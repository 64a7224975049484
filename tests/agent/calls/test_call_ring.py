"""What a rank writes as it goes is readable from outside, whatever becomes of the rank."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.calls.call_log import CallLog
from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.call_ring import NO_SEQ, RING
from ddpdoctor.agent.inside.schema.call_texts import Group, Members, Op, Place, ReduceOp, TensorSpec
from ddpdoctor.agent.inside.schema.source_line import SourceLine
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import StepMark
from ddpdoctor.evidence.recorder import State
from ddpdoctor.ranks.agent_files import find_ranks
from ddpdoctor.ranks.call_ring_reader import read_records

ALL_REDUCE, GROUP, PLACE, MAX, TENSOR, MEMBERS, SEND = 1, 1, 1, 1, 1, 1, 2
TEXTS = (
    (1, Op("all_reduce")),
    (2, Op("send")),
    (1, Group("0", "default_pg", "gloo")),
    (1, Place((SourceLine("/job/train.py", 61, "train_step"),))),
    (1, ReduceOp("MAX")),
    (1, TensorSpec((3, 4), "float32")),
    (1, Members((0, 2))),
)
TRAINED_ON, EVALUATED_ON = 1, 2


@pytest.fixture
def ring(tmp_path: Path) -> CallRing:
    lines = (json.dumps([type(text).__name__, number, text]) + "\n" for number, text in TEXTS)
    (tmp_path / "77.texts").write_text("".join(lines) + '["Op", 3, ["to')
    return CallRing(str(tmp_path / "77.ring"), rank=3, world_size=4, restart=0)


def test_calls_come_back_as_they_were_made(ring: CallRing, tmp_path: Path) -> None:
    begun = ring.begin_collective(ALL_REDUCE, GROUP, PLACE, seq=41, root=2, reduce_op=MAX, tensor=TENSOR)
    ring.end(begun)
    ring.begin_point_to_point(SEND, GROUP, PLACE, peer=1, tag=7, number=3)
    ring.begin_new_group(MEMBERS, PLACE)
    ring.count_step()
    (rank,) = find_ranks(tmp_path)
    assert (rank.rank, rank.pid, rank.steps().steps) == (3, 77, 1)
    found = rank.call_log().calls()
    all_reduce, send = found.calls
    assert (all_reduce.op, all_reduce.group, all_reduce.seq, all_reduce.root, all_reduce.reduce_op) == (
        "all_reduce", "0", 41, 2, "MAX",
    )  # fmt: skip
    assert (all_reduce.returned, all_reduce.peer, all_reduce.tag) == (True, None, 0)
    assert (send.op, send.peer, send.tag, send.root, send.seq, send.returned) == ("send", 1, 7, None, 3, False)
    assert all_reduce.place == send.place == Frame(file="/job/train.py", line=61, function="train_step")
    (new_group,) = found.new_groups
    assert (new_group.ranks, new_group.returned) == ((0, 2), False)


def test_a_reduce_operation_that_comes_late_in_a_job_of_many_places_is_recorded(tmp_path: Path) -> None:
    rank = Rank(str(tmp_path))
    log = CallLog(rank)
    for number in range(300):
        log.op(f"function {number}")
    log.ring.begin_collective(log.op("all_reduce"), 0, 0, seq=0, reduce_op=log.reduce_op("MAX"))
    log.ring.identify(0, 1)
    log._texts.close()
    (found,) = find_ranks(tmp_path)
    assert [call.reduce_op for call in found.call_log().calls().calls] == ["MAX"]


def test_the_last_calls_stand_in_for_a_recorder_that_is_lost(ring: CallRing, tmp_path: Path) -> None:
    ring.begin_collective(ALL_REDUCE, GROUP, PLACE, seq=41, reduce_op=MAX, tensor=TENSOR)
    ring.begin_collective(ALL_REDUCE, GROUP, PLACE, seq=42)
    record = find_ranks(tmp_path)[0].call_log().flight_record()
    assert record is not None
    assert (record.seq, record.state) == ((41,), (State.SCHEDULED,)), "a call without tensors is a gap"
    assert (record.calls[0].op, record.calls[0].input_sizes, record.calls[0].input_dtypes) == (
        "all_reduce", ((3, 4),), ("Float",),
    )  # fmt: skip
    assert record.stack_of(0) == (Frame(file="/job/train.py", line=61, function="train_step"),)


def test_iterations_are_the_batches_of_the_data_that_is_trained_on(ring: CallRing, tmp_path: Path) -> None:
    for number in (1, 2):
        ring.batch(TRAINED_ON, asked_ns=1, drawn_ns=2, seq=10 * number, iteration=number, in_pass=number, of=2)
        ring.forward(PLACE, seq=10 * number, number=number, turn=None)
    for number in (1, 2, 3):
        ring.batch(EVALUATED_ON, asked_ns=1, drawn_ns=2, seq=20, iteration=number, in_pass=None)
    assert find_ranks(tmp_path)[0].call_log().calls().steps == (
        StepMark(iteration=1, seq=10, in_pass=1, of=2, forwards=0),
        StepMark(iteration=2, seq=20, in_pass=2, of=2, forwards=1),
    )


def test_without_a_loader_iterations_are_the_forwards_whose_collectives_are_counted(
    ring: CallRing, tmp_path: Path
) -> None:
    for number, seq in ((1, NO_SEQ), (2, 5)):
        ring.forward(PLACE, seq=seq, number=number, turn=None)
    assert find_ranks(tmp_path)[0].call_log().calls().steps == (StepMark(iteration=2, seq=5),)


def test_a_forward_keeps_the_turn_of_its_loop(ring: CallRing, tmp_path: Path) -> None:
    for number, turn in ((1, 0), (2, None), (3, 7)):
        ring.forward(PLACE, seq=0, number=number, turn=turn)
    assert [forward.turn for forward in find_ranks(tmp_path)[0].call_log().calls().forwards] == [0, None, 7]


def test_the_ring_keeps_the_latest(ring: CallRing, tmp_path: Path) -> None:
    for seq in range(RING + 5):
        ring.end(ring.begin_collective(ALL_REDUCE, GROUP, PLACE, seq=seq))
    records = read_records((tmp_path / "77.ring").read_bytes())
    numbers = [record.seq for record in records if hasattr(record, "seq")]
    assert (len(records), numbers[0], numbers[-1]) == (RING, 5, RING + 4)


def test_a_call_that_returns_after_the_ring_went_round_changes_no_other_record(ring: CallRing, tmp_path: Path) -> None:
    waits = ring.begin_collective(ALL_REDUCE, GROUP, PLACE, seq=0)
    for seq in range(1, RING + 1):
        ring.begin_collective(ALL_REDUCE, GROUP, PLACE, seq=seq)
    ring.end(waits)
    assert not any(call.returned for call in find_ranks(tmp_path)[0].call_log().calls().calls)


def test_a_rank_that_is_numbered_anew_takes_the_place_of_the_one_that_had_its_local_rank(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(pid: int, rank: int, local_rank: str) -> None:
        monkeypatch.setenv("LOCAL_RANK", local_rank)
        CallRing(str(tmp_path / f"{pid}.ring"), rank=rank, world_size=4, restart=0)
        os.utime(tmp_path / f"{pid}.ring")  # what is written last is the youngest

    for pid, rank, local_rank in ((71, 2, "0"), (72, 3, "1"), (81, 0, "0")):
        start(pid, rank, local_rank)
    assert [(found.rank, found.pid) for found in find_ranks(tmp_path)] == [(0, 81), (3, 72)]
    start(82, 1, "1")
    assert [(found.rank, found.pid) for found in find_ranks(tmp_path)] == [(0, 81), (1, 82)]
    start(91, 3, "")  # without a launcher's local rank the rank is all there is
    assert [(found.rank, found.pid) for found in find_ranks(tmp_path)] == [(0, 81), (1, 82), (3, 91)]

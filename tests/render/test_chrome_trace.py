"""The trace of a job's collectives, against the rules of the Trace Event Format and of Perfetto's import of it.

test_perfetto.py asks Perfetto's trace processor itself, where it is installed.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from typing import Any

import pytest

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.step_times import Pace
from ddpdoctor.render import chrome_trace
from tests.flight_records import Did, flights, record, waits

STEP = Did("all_reduce")
MS = 1_000_000
CALLS = 30


def events(evidence: Evidence) -> list[dict[str, Any]]:
    document = json.loads("".join(chrome_trace.chunks(evidence)))
    found: list[dict[str, Any]] = document["traceEvents"]
    assert_well_formed(found)
    return found


def assert_well_formed(found: list[dict[str, Any]]) -> None:
    """Every event has what its kind needs, slices of a thread nest, and each flow has one begin and one end."""
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
    flows: dict[str, list[tuple[float, bool, bool]]] = defaultdict(list)
    for event in found:
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        match event["ph"]:
            case "M":
                assert event["name"] in {"process_name", "process_sort_index", "thread_name"}
                assert event["args"]
            case "X":
                assert event["ts"] >= 0
                assert event["dur"] > 0
                tracks[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"]))
            case "i":
                assert event["s"] == "t"
            case kind:
                pytest.fail(f"an event of kind {kind}")
        if "bind_id" in event:
            flows[event["bind_id"]].append((event["ts"], event.get("flow_in", False), event.get("flow_out", False)))
    for slices in tracks.values():
        open_: list[float] = []
        for start, end in sorted(slices, key=lambda each: (each[0], -each[1])):
            while open_ and open_[-1] <= start + 1e-6:
                open_.pop()
            assert not open_ or end <= open_[-1] + 1e-3, "a slice ends after the one that it began in"
            open_.append(end)
    for steps in flows.values():
        first, *others = sorted(steps)
        assert first[1:] == (False, True), "a flow does not begin with the first slice"
        assert sum(not out for _, _, out in others) == 1, "a flow has not one end"
        assert all(into for _, into, _ in others)


def late(
    made: FlightRecord, by_ns: int, *, clock_ns: int = 0, takes_ns: int = 5 * MS, latest_ns: int = 0
) -> FlightRecord:
    """The record of a rank that makes each call `by_ns` later; its clock is `clock_ns` ahead."""
    ended = tuple(created + latest_ns + takes_ns + clock_ns for created in made.created_ns)
    return replace(made, created_ns=tuple(each + by_ns + clock_ns for each in made.created_ns), completed_ns=ended)


def named(found: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return [event for event in found if event["name"] == name]


def test_peers_wait_for_the_late_rank_and_it_waits_for_nobody() -> None:
    plain = record([STEP] * CALLS)
    job = flights(*(late(plain, 30 * MS if rank == 2 else 0, latest_ns=30 * MS) for rank in range(4)))
    found = events(job)
    waiting = named(found, "waits for rank 2")
    assert Counter(event["pid"] for event in waiting) == {0: CALLS, 1: CALLS, 3: CALLS}
    assert {event["dur"] for event in waiting} == {30_000.0}
    calls = named(found, "all_reduce")
    assert {event["dur"] for event in calls if event["pid"] == 0} == {35_000.0}
    assert {event["dur"] for event in calls if event["pid"] == 2} == {5_000.0}
    assert calls[0]["args"] == {"shape": "10", "dtype": "Float", "line": "train.py:61 in train_step", "seq": 1}


def test_a_hang_is_drawn_until_the_dump() -> None:
    made = [STEP] * (CALLS - 1)
    job = flights(*(record([*made, waits(STEP)] if rank != 1 else made) for rank in range(4)))
    found = events(job)
    (open_, *_) = [event for event in named(found, "all_reduce") if event["args"].get("complete") is False]
    assert open_["dur"] == pytest.approx(6.2e6, rel=0.01)
    assert {event["pid"] for event in named(found, "waits for 1 rank that never calls")} == {0, 2, 3}


def test_tracks_are_ranks_and_groups() -> None:
    sharded = replace(STEP, group="7", members=(0, 1))
    found = events(flights([STEP, sharded] * 5, [STEP, sharded] * 5, [STEP] * 5, [STEP] * 5))
    names = {(event["pid"], event["tid"]): event["args"]["name"] for event in named(found, "thread_name")}
    assert names[0, 1] == "default group (nccl)"
    assert names[0, 2] == "group 7 (nccl)"
    assert (2, 2) not in names
    assert {event["args"]["name"] for event in named(found, "process_name")} == {f"rank {n} (host-a)" for n in range(4)}


def on_two_hosts(clock_ns: int) -> Evidence:
    """Two ranks a host; the clock of the second host is ahead."""
    plain = record([STEP] * CALLS)
    made = [late(plain, number * MS, clock_ns=clock_ns if number > 1 else 0, latest_ns=3 * MS) for number in range(4)]
    return Evidence(
        ranks=tuple(
            RankFacts(rank=number, host=f"host-{number // 2}", facts=(one,)) for number, one in enumerate(made)
        ),
        about_job=True,
    )


@pytest.mark.parametrize("clock_ns", [7_000 * MS, -40 * MS])
def test_clocks_are_aligned_by_collectives(clock_ns: int) -> None:
    """What is left of the difference is less than the time of one collective."""
    found = events(on_two_hosts(clock_ns))
    starts = {event["pid"]: event["ts"] for event in named(found, "all_reduce") if event["args"]["seq"] == 10}
    assert max(starts.values()) - min(starts.values()) < 9_000
    document = json.loads("".join(chrome_trace.chunks(on_two_hosts(clock_ns))))
    (clock,) = (each for ranks, each in document["otherData"]["clock offsets, ns"].items() if ranks == "2,3")
    assert clock["at least"] <= -clock_ns <= clock["at most"]
    assert clock["at least"] <= clock["added"] <= clock["at most"]


def test_clocks_that_agree_are_left_alone() -> None:
    document = json.loads("".join(chrome_trace.chunks(on_two_hosts(0))))
    assert {each["added"] for each in document["otherData"]["clock offsets, ns"].values()} == {0}


def test_a_broadcast_makes_nobody_wait_for_the_last() -> None:
    plain = record([Did("broadcast")] * CALLS)
    job = flights(*(late(plain, 30 * MS if rank == 2 else 0, latest_ns=30 * MS) for rank in range(4)))
    assert not [event for event in events(job) if event.get("cat") == "wait"]


def test_steps_are_markers_and_waits_for_data_are_slices() -> None:
    plain = record([STEP] * CALLS)
    began = plain.created_ns[0]
    pace = Pace(
        asked_ns=(began, began + 50 * MS),
        drawn_ns=(began + 20 * MS, began + 50 * MS + 1),
        forward_ns=(began + 21 * MS,),
    )
    found = events(flights(plain, plain, facts={1: (pace,)}))
    (marker,) = named(found, "forward 1")
    assert (marker["pid"], marker["tid"], marker["ts"]) == (1, 0, 21_000.0)
    (batch,) = named(found, "waits for its batch")
    assert (batch["ts"], batch["dur"]) == (0.0, 20_000.0)


def test_sends_and_receives_have_a_track() -> None:
    send = Did("send", peers=(0, 1))
    found = events(flights([send] * 3, [replace(send, op="recv")] * 3))
    assert [event["args"]["seq"] for event in named(found, "send 0 to 1")] == [1, 2, 3]


def test_nothing_without_recorders() -> None:
    assert "".join(chrome_trace.chunks(Evidence())) == ""

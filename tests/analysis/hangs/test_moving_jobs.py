"""Dumps of jobs that were on their way: a call that was queued on a device seconds ago is no hang."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.recorder import FlightRecord, State
from tests.flight_records import STEP, Did, flights, record, waits

QUEUED_SECONDS = 4.0


def queued(*, completed: int, since_the_last: float) -> FlightRecord:
    """A rank that queued six calls within 4 s, completed the first of them, and left its dump that long after the last."""
    calls = [*[STEP] * completed, *[waits(STEP)] * (6 - completed)]
    one = record(calls, world=4)
    last = one.created_ns[-1]
    created = tuple(last - round(QUEUED_SECONDS * 1e9 * (5 - place) / 5) for place in range(6))
    ended = tuple(last if place < completed else 0 for place in range(6))
    return replace(one, created_ns=created, completed_ns=ended, taken_at=last / 1e9 + since_the_last)


def job(since_the_last: float) -> Evidence:
    """Four ranks that complete call after call; the dump of rank 1 was made a call earlier than the others."""
    return flights(*(queued(completed=1 if rank == 1 else 2, since_the_last=since_the_last) for rank in range(4)))


def test_a_job_that_queues_and_completes_calls_is_left_alone() -> None:
    assert derived(job(0.2), WaitForGraph) is None
    assert not diagnose(job(0.2)).findings


def test_the_same_dumps_made_long_after_the_last_call_show_a_rank_that_stopped() -> None:
    graph = derived(job(600.0), WaitForGraph)
    assert graph is not None
    assert (graph.reason, graph.ranks) == (Reason.STOPPED, (1,))
    assert [finding.code for finding in diagnose(job(600.0)).findings] == ["DDP319"]


def test_one_rank_that_still_moves_does_not_excuse_the_others() -> None:
    ranks = [queued(completed=1 if rank == 1 else 2, since_the_last=0.2 if rank == 0 else 600.0) for rank in range(4)]
    graph = derived(flights(*ranks), WaitForGraph)
    assert graph is not None
    assert (graph.reason, graph.ranks) == (Reason.STOPPED, (1,))


@pytest.mark.parametrize("stuck_for", [10.0, 500.0])
def test_a_group_that_moves_does_not_excuse_one_that_stands(stuck_for: float) -> None:
    """Signs of life go on in a group of their own, while the device of rank 1 has stopped in the default group."""
    ranks = []
    for rank in range(4):
        done = 1 if rank == 1 else 2
        one = record([*[STEP] * done, *[waits(STEP)] * (3 - done), *[Did("all_reduce", group="5")] * 20], world=4)
        last = one.created_ns[-1]
        created = tuple(last - round(1e9 * (stuck_for if at < 3 else (22 - at) * stuck_for / 20)) for at in range(23))
        ended = tuple(at + 1000 if state is State.DONE else 0 for at, state in zip(created, one.state, strict=True))
        ranks.append(replace(one, created_ns=created, completed_ns=ended, taken_at=last / 1e9 + 0.5))
    assert [(found.code, found.ranks) for found in diagnose(flights(*ranks)).findings] == [("DDP319", (1,))]


def test_no_completed_call_excuses_one_that_waits_for_longer_than_a_queue_holds() -> None:
    ranks = [queued(completed=1 if rank == 1 else 2, since_the_last=0.2) for rank in range(4)]
    stuck = [replace(one, created_ns=tuple(at - 40 * 10**9 for at in one.created_ns)) for one in ranks]
    assert [(found.code, found.ranks) for found in diagnose(flights(*stuck)).findings] == [("DDP319", (1,))]


@pytest.mark.parametrize("waited", [500.0, None])
def test_a_batch_that_is_open_for_long_tells_where_the_host_has_stopped(waited: float | None) -> None:
    one, end = Did("all_gather"), Did("coalesced")
    made = [[one, one, end], [one, one, end], [one]]
    whole = in_batches([*made[:2], [one, one, end]], waited=500.0)
    open_ = in_batches(made, waited=waited)
    assert derived(flights(open_, open_, open_, open_), WaitForGraph) is not None
    assert told(whole, whole, open_, whole) == [("DDP307", (2,))]


@pytest.mark.parametrize(("closed", "code"), [(False, "DDP307"), (True, "DDP314")])
def test_a_batch_of_sends_that_is_open_for_long_tells_where_the_host_has_stopped(*, closed: bool, code: str) -> None:
    def exchanges(rank: int, *, closed: bool = True) -> FlightRecord:
        send = Did("send", peers=(rank, 1 - rank), group="1", members=(0, 1))
        batch = [send, replace(send, op="recv", peers=(1 - rank, rank)), replace(send, op="coalesced")]
        return in_batches([[*batch], [*batch], [*batch] if closed else [send]], waited=500.0)

    waits_for_0 = record([waits(Did("all_reduce", group="2", members=(0, 2)))], waited=500.0)
    (finding,) = diagnose(flights(exchanges(0, closed=closed), exchanges(1), waits_for_0)).findings
    assert (finding.code, finding.ranks) == (code, () if closed else (0,))


def test_a_batch_that_the_host_was_issuing_is_not_compared() -> None:
    one, other, end = Did("all_gather"), Did("all_gather", sizes=((20,),)), Did("coalesced")
    batches = [[one, other, end], [one, other, end], [one, other, end]]
    whole, open_ = in_batches(batches), in_batches([*batches[:2], [one]], waited=0.5)
    assert "DDP301" not in {finding.code for finding in diagnose(flights(whole, whole, open_, whole)).findings}
    left_out = in_batches([*batches[:2], [one, end]])
    assert [finding.ranks for finding in diagnose(flights(whole, whole, left_out, whole)).findings] == [(2,)]


def test_a_batch_whose_beginning_the_ring_has_lost_is_not_compared() -> None:
    one, other, end = Did("all_gather"), Did("all_gather", sizes=((20,),)), Did("coalesced")
    batches = [[one, other, end], [one, other, end]]
    whole, cut = in_batches(batches), replace(in_batches([[other, end], batches[1]]), lost=1)
    assert "DDP301" not in {finding.code for finding in diagnose(flights(whole, whole, cut, whole)).findings}


def test_numbers_that_are_left_out_beside_a_batch_that_is_cut_are_no_calls() -> None:
    one, end = Did("all_gather"), Did("coalesced")
    open_ = replace(record([one, end, one, end, waits(one)], waited=0.5), seq=(1, 1, 2, 2, 4))
    assert not diagnose(flights(open_, open_, open_, open_)).findings
    whole = replace(record([one, end, one, end, waits(one), waits(end)]), seq=(1, 1, 2, 2, 4, 4))
    cut = replace(record([end, one, end, waits(one), waits(end)], lost=1), seq=(1, 3, 3, 4, 4))
    tracks = [derived(flights(each, each), Timeline) for each in (open_, cut)]
    assert [{issued.seq for issued in track.groups[0].last.values()} for track in tracks if track] == [{2}, {4}]
    assert [track.groups[0].group_sequences.sequences[0].first for track in tracks if track] == [1, 3]
    assert all(0 in finding.ranks for finding in diagnose(flights(open_, whole, whole, whole)).findings)


def told(*records: FlightRecord) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.code, finding.ranks) for finding in diagnose(flights(*records)).findings]


def in_batches(batches: list[list[Did]], *, waited: float | None = 6.2) -> FlightRecord:
    """A rank that issued these batches, the last of which has not ended."""
    made = [waits(did) if batch is batches[-1] else did for batch in batches for did in batch]
    numbers = tuple(number for number, batch in enumerate(batches, start=1) for _ in batch)
    return replace(record(made, world=4, waited=waited), seq=numbers)


def test_a_call_that_is_younger_than_its_file_because_of_the_clocks_is_new() -> None:
    """Rank 0 waits in a receive by a file whose time is 0.4 s before it; rank 1 has not sent yet."""
    receives = record([waits(Did("recv", peers=(1, 0)))], world=2)
    ahead = replace(receives, taken_at=receives.created_ns[-1] / 1e9 - 0.4)
    assert diagnose(flights(ahead, record([STEP, waits(STEP)], world=2, waited=0.3))).findings == ()

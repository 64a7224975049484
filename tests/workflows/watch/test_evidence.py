"""What is known of a job: it stalls only where somebody says so, and which recorder of a rank is believed after its end."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.calls.call_log import CallLog
from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.schema.call_ring import Header
from ddpdoctor.agent.inside.schema.error import Error
from ddpdoctor.agent.inside.schema.rank_end import ExitCode, RankFailure
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.launch import Joining
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.host.running_jobs import LaunchedProcess
from ddpdoctor.launch.observed_job import observe
from ddpdoctor.launch.private_directory import private_directory
from ddpdoctor.ranks.agent_files import RankProcess, find_ranks
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.workflows.watch import evidence as watch_evidence
from ddpdoctor.workflows.watch.evidence import JobEvidence, _with_a_recorder, _with_joining

DUMP = Path(__file__).parents[2] / "data" / "recorder" / "gloo" / "rank_0"


@pytest.mark.parametrize("stalled", [True, False], ids=["stalled", "looked at while it moves"])
def test_a_look_at_a_job_says_whether_the_job_stalled(tmp_path: Path, *, stalled: bool) -> None:
    with (
        private_directory() as folder,
        observe(["sleep", "600"], environ={}, mark=f"NOBODY={os.getpid()}", folder=folder, die_with_us=True) as job,
    ):
        evidence = JobEvidence(job=job, directory=tmp_path).during_stall((), 30.0, stalled=stalled)
        job.end()
        job.wait(30.0)
        job.drain()
    stall = evidence.one(Stall)
    assert (stall is not None) is stalled
    assert stall is None or stall.seconds >= 30.0


def test_the_end_of_an_earlier_attempt_is_evidence_of_its_own(tmp_path: Path) -> None:
    for pid, restart in ((11, 0), (22, 1)):
        CallRing(str(tmp_path / f"{pid}.ring"), rank=1, world_size=2, restart=restart)
    (tmp_path / "11.error").write_text(json.dumps(RankFailure(10.0, Error("ValueError", "bad sample"))))
    (tmp_path / "exits").write_text(
        "".join(f"{json.dumps(end)}\n" for end in (ExitCode(11, 1, 11.0, 5), ExitCode(22, 0, 20.0, 5)))
    )
    with (
        private_directory() as folder,
        observe(["true"], environ={}, mark=f"NOBODY={os.getpid()}", folder=folder, die_with_us=True) as job,
    ):
        job.wait(30.0)
        job.drain()
        evidence = JobEvidence(job=job, directory=tmp_path).after_exit(0, None)

    (earlier,) = evidence.earlier
    assert [(one.exit_code, one.error is not None) for one in _ends(earlier)] == [(1, True)]
    assert [(one.exit_code, one.error is not None) for one in _ends(evidence)] == [(0, False)]


def _ends(evidence: Evidence) -> list[RankExit]:
    exits = evidence.per_rank(RankExit)
    return [entry.value for entry in exits] if exits is not None else []


def test_a_rank_that_ended_before_it_joined_is_known_in_a_stall(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_evidence, "ended_for", lambda directory: {2: 0} if directory == tmp_path else {})
    with (
        private_directory() as folder,
        observe(["sleep", "600"], environ={}, mark=f"NOBODY={os.getpid()}", folder=folder, die_with_us=True) as job,
    ):
        evidence = JobEvidence(job=job, directory=tmp_path).during_stall((), 30.0)
        job.end()
        job.wait(30.0)
        job.drain()
    assert [(found.rank, found.facts) for found in evidence.ranks] == [(2, (RankExit(exit_code=0),))]


@pytest.mark.parametrize("has_kept", [True, False], ids=["kept", "not kept"])
@pytest.mark.parametrize("at_end", [True, False], ids=["ended with code 0", "ended otherwise"])
def test_what_a_rank_kept_at_a_good_end_replaces_what_it_showed_in_a_stall(
    tmp_path: Path, *, at_end: bool, has_kept: bool
) -> None:
    agent = RankProcess(directory=tmp_path, pid=7, header=Header(rank=0, world_size=3))
    kept = record_of(decode(DUMP.read_bytes()))
    in_stall = replace(kept, taken_at=1.8e9)
    if has_kept:
        shutil.copy(DUMP, tmp_path / "7.recorder")
    seen = _with_a_recorder((in_stall,), agent, agent.call_log(), peers_recorded=True, at_end=at_end)
    (record,) = (fact for fact in seen if isinstance(fact, FlightRecord))
    assert kept.frames
    assert record == (kept if at_end and has_kept else in_stall)


@pytest.mark.parametrize("with_a_barrier", [True, False], ids=["and a barrier", "alone"])
def test_an_empty_recorder_is_that_of_a_rank_that_only_sent_and_received(
    tmp_path: Path, *, with_a_barrier: bool
) -> None:
    """Beside recorded peers; after another call an empty recorder is not the one that its peers have."""
    rank = Rank(str(tmp_path))
    rank.number, rank.world_size = 0, 3
    log = CallLog(rank)
    log.ring.begin_point_to_point(log.op("recv"), log.group("0", "default_pg", "gloo"), 0, peer=1, tag=0, number=1)
    if with_a_barrier:
        log.ring.begin_collective(log.op("barrier"), log.group("0", "default_pg", "gloo"), 0, seq=1)
    log._texts.close()  # a rank keeps it for life
    (agent,) = find_ranks(tmp_path)
    empty = replace(
        record_of(decode(DUMP.read_bytes())),
        **dict.fromkeys(("call", "seq", "stack", "state", "created_ns", "completed_ns", "frames", "stacks"), ()),
    )
    seen = _with_a_recorder((empty,), agent, agent.call_log(), peers_recorded=True, at_end=False)
    assert (empty in seen) is not with_a_barrier


@pytest.mark.parametrize("pid", [7, 8], ids=["the launcher's process", "a child of it by mp.spawn"])
def test_what_was_launched_is_known_of_the_process_that_the_launcher_started(tmp_path: Path, pid: int) -> None:
    agent = RankProcess(directory=tmp_path, pid=pid, header=Header(rank=0, world_size=4))
    launched = LaunchedProcess(pid=7, rank=0, world_size=2, joining=Joining(called=False, started=2))
    (joining,) = _with_joining(RankFacts(rank=0, host="a", facts=()), (agent,), {0: launched}, ()).facts
    assert joining == Joining(called=True, started=2 if pid == 7 else None, world_size=4)

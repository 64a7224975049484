"""How ranks are sampled: lateness from their calls, rates from two samples, and what is shared between nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.schema.call_ring import Collective
from ddpdoctor.agent.inside.schema.call_texts import Op
from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.ranks.call_log_reader import CallLog
from ddpdoctor.ranks.call_texts_reader import Texts
from ddpdoctor.ranks.snapshot import Target
from ddpdoctor.workflows import shared_status
from ddpdoctor.workflows.rank_status import StatusReader, lateness
from ddpdoctor.workflows.verdict_command import VerdictCommand

TEXTS = Texts({(Op, 1): Op(name="all_reduce")})


def log(*began_ms: float) -> CallLog:
    """The calls 1, 2, ... of a rank, made at these times."""
    calls = [
        Collective(
            began_ns=round(1e6 * ms), returned_ns=1, seq=seq, root=-1, op=1, group=0, place=0, reduce_op=0, tensor=0
        )
        for seq, ms in enumerate(began_ms, start=1)
    ]
    return CallLog(calls, TEXTS)


def test_lateness_is_the_median_behind_the_first() -> None:
    late = lateness({0: log(0, 100, 200), 1: log(30, 130, 900), 2: log(1, 100, 200)})
    assert late == {0: 0.0, 1: 0.03, 2: 0.0}


def test_only_calls_that_all_ranks_made_count() -> None:
    assert lateness({0: log(0, 100), 1: log(5)}) == {0: 0.0, 1: 0.005}
    assert lateness({0: log(0)}) == {}


def test_a_process_that_ended_is_a_row() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    (row,) = StatusReader(host="a").sample([Target(rank=3, pid=process.pid)], stacks=False)
    assert row == RankStatus(rank=3, host="a", pid=process.pid, state="ended")


def test_rates_need_two_samples() -> None:
    reader = StatusReader(host="a")
    (first,) = reader.sample([Target(rank=0, pid=os.getpid())], stacks=False)
    (second,) = reader.sample([Target(rank=0, pid=os.getpid())], stacks=False)
    assert first.cpu_share is None
    assert second.cpu_share is not None
    assert second.memory_bytes is not None


def test_nodes_share_their_rows(tmp_path: Path) -> None:
    node_a = (RankStatus(rank=0, host="a", pid=1, state="x"), RankStatus(rank=1, host="a", pid=2, state="x"))
    node_b = (RankStatus(rank=2, host="b", pid=1, state="x", late_seconds=0.5),)
    shared_status.write_statuses(tmp_path, node_b)
    shared_status.write_statuses(tmp_path, node_a)
    assert shared_status.read_statuses(tmp_path) == (*node_a, *node_b)
    shared_status.remove_statuses(tmp_path, node_a)
    assert shared_status.read_statuses(tmp_path) == node_b


def test_rows_of_a_node_whose_watch_was_killed_are_left_out(tmp_path: Path) -> None:
    old, new = (RankStatus(rank=rank, host="a", pid=1, state="x") for rank in (0, 4))
    shared_status.write_statuses(tmp_path, (old,))
    file = next(tmp_path.glob(".node*"))
    os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 60))
    shared_status.write_statuses(tmp_path, (new,))
    assert shared_status.read_statuses(tmp_path) == (new,)


def test_damaged_rows_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".node-with-rank-0.status").write_bytes(b"[{")
    assert shared_status.read_statuses(tmp_path) == ()


def test_the_users_command_gets_the_event_and_the_report(tmp_path: Path) -> None:
    command = VerdictCommand(command=f'echo "$DDPDOCTOR_EVENT" > {tmp_path}/said; cat >> {tmp_path}/said')
    command.run("verdict", '{"schema": 1}\n')
    command.finish()
    assert (tmp_path / "said").read_text() == 'verdict\n{"schema": 1}\n'
    assert command.failures == []


def test_a_command_that_fails_or_hangs_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ddpdoctor.workflows.verdict_command.LONGEST_SECONDS", 0.2)
    command = VerdictCommand(command="exit 7")
    command.run("verdict", "{}" * 100_000)
    command.finish()
    assert command.failures == ["--on-verdict: `exit 7` ended with exit code 7"]
    command = VerdictCommand(command="sleep 600")
    command.run("verdict", "")
    command.finish()
    assert command.failures == ["--on-verdict: `sleep 600` was ended after 0 s"]

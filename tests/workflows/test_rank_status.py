"""How ranks are sampled: lateness from their calls, rates from two samples, and what is shared between nodes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.schema.call_ring import Collective, Forward
from ddpdoctor.agent.inside.schema.call_texts import Op
from ddpdoctor.analysis.hangs.ranks_to_look_at import ranks_to_look_at
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.gpus import Gpu, GpuProcess, Gpus
from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.ranks.call_log_reader import CallLogReader
from ddpdoctor.ranks.call_texts_reader import Texts
from ddpdoctor.ranks.target import Target
from ddpdoctor.workflows import rank_status
from ddpdoctor.workflows.rank_status import StatusReader, lateness
from ddpdoctor.workflows.shared_case import CaseRequests, answer, answers, ask_for_case, withdraw
from ddpdoctor.workflows.shared_status import SharedRows, read_statuses
from ddpdoctor.workflows.verdict_command import VerdictCommand

TEXTS = Texts({(Op, 1): Op(name="all_reduce")})


def log(*began_ms: float) -> CallLogReader:
    """The calls 1, 2, ... of a rank, made at these times."""
    calls = [
        Collective(
            began_ns=round(1e6 * ms), returned_ns=1, seq=seq, root=-1, op=1, group=0, place=0, reduce_op=0, tensor=0
        )
        for seq, ms in enumerate(began_ms, start=1)
    ]
    return CallLogReader(calls, TEXTS)


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
    node_b = (RankStatus(rank=2, host="b", pid=1, state="x", late_seconds=0.5, stack=("train.py:7 in fetch",)),)
    rows = SharedRows(tmp_path)
    SharedRows(tmp_path).write(node_b)
    rows.write(node_a)
    assert read_statuses(tmp_path) == (*node_a, *node_b)
    rows.remove()
    assert read_statuses(tmp_path) == node_b


def test_a_node_whose_lowest_rank_came_last_leaves_nothing_behind(tmp_path: Path) -> None:
    """Regression: rank 3 was shown as `starting` after the end of the job, from the file of the first moment."""
    rows = SharedRows(tmp_path)
    rows.write((RankStatus(rank=3, host="b", pid=2, state="starting"),))
    rows.write(tuple(RankStatus(rank=rank, host="b", pid=rank, state="x") for rank in (2, 3)))
    assert [one.rank for one in read_statuses(tmp_path)] == [2, 3]
    rows.remove()
    assert not [*tmp_path.iterdir()]


def test_a_node_that_stopped_reporting_is_silent_and_later_left_out(tmp_path: Path) -> None:
    old, new = (RankStatus(rank=rank, host="a", pid=1, state="x", waits_for_peers=True) for rank in (0, 4))
    SharedRows(tmp_path).write((old,))
    SharedRows(tmp_path).write((new,))
    assert read_statuses(tmp_path) == (old, new)
    file = tmp_path / ".node-with-rank-0.status"
    written = file.stat().st_mtime
    os.utime(file, (written, written - 60))
    silent, fresh = read_statuses(tmp_path)
    assert (silent.state, silent.waits_for_peers, fresh) == ("no report", False, new)
    assert ranks_to_look_at((silent, fresh)) == {0}
    os.utime(file, (written, written - 600))
    assert read_statuses(tmp_path) == (new,)


def test_every_node_answers_a_request_for_a_case_once(tmp_path: Path) -> None:
    requests = [CaseRequests(tmp_path) for _ in range(2)]
    assert [one.next() for one in requests] == [None, None]
    folder = ask_for_case(tmp_path)
    for lowest, one in zip((0, 8), requests, strict=True):
        assert one.next() == folder
        assert one.next() is None
        answer(folder, Evidence(ranks=(RankFacts(rank=lowest, host=f"node-{lowest}", facts=()),)))
    assert answers(folder) == 2
    assert CaseRequests(tmp_path).next() is None  # a `watch` that starts later is not asked
    withdraw(folder)
    assert [file.name for file in tmp_path.iterdir()] == [folder.name]


@pytest.mark.parametrize("named", ["../elsewhere", "/etc", "look-20260101-000000/../..", "", "x" * 5000])
def test_a_request_names_a_folder_in_the_directory_or_nothing(tmp_path: Path, named: str) -> None:
    requests = CaseRequests(tmp_path)
    assert requests.next() is None
    (tmp_path / ".case-wanted").write_text(named)
    assert requests.next() is None


def test_lateness_in_a_job_whose_collectives_are_those_of_ddp(tmp_path: Path) -> None:
    """DDP's own all-reduces are in no record: the training forwards are compared."""

    def forwards(*began_ms: float) -> CallLogReader:
        each = enumerate(began_ms, start=1)
        calls = [Forward(began_ns=round(1e6 * ms), seq=0, number=n, turn=-1, place=0) for n, ms in each]
        return CallLogReader(calls, TEXTS)

    assert lateness({0: forwards(0, 100, 200), 1: forwards(20, 120, 220)}) == {0: 0.0, 1: 0.02}


def gpu(pid: int, **known: int) -> Gpus:
    """One GPU on which the process computes."""
    return Gpus(driver="580.65.06", gpus=(Gpu(index=0, processes=(GpuProcess(pid=pid),), **known),))


@pytest.mark.parametrize(
    ("known", "shown"),
    [
        ({"use_percent": 87, "memory_used_bytes": 14 << 30, "temperature_celsius": 61}, "87% 14G 61C"),
        ({"use_percent": 0, "temperature_celsius": 31}, "0% 31C"),
        ({}, ""),
    ],
)
def test_the_gpu_of_a_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, known: dict[str, int], shown: str) -> None:
    """Only that of its own process; what the driver does not tell is left out."""
    device = tmp_path / "nvidia0"
    monkeypatch.setattr(rank_status, "NVIDIA_DEVICE", device)
    monkeypatch.setattr(rank_status.gpus, "collect", lambda access: [gpu(os.getpid(), **known)])
    ranks = [Target(rank=0, pid=os.getpid()), Target(rank=1, pid=os.getppid())]
    assert [row.gpu for row in StatusReader(host="a").sample(ranks, stacks=False)] == [
        "",
        "",
    ]  # no device: nobody is asked
    device.touch()
    assert [row.gpu for row in StatusReader(host="a").sample(ranks, stacks=False)] == [shown, ""]


def test_damaged_rows_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / ".node-with-rank-0.status").write_bytes(b"[{")
    assert read_statuses(tmp_path) == ()


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


def test_ranks_that_do_not_answer_do_not_hold_up_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """py-spy waits 4 s for each: after such a look the next one comes when ten times as long has passed, also of new ranks."""
    clock, looks = [100.0], []

    def unanswered(targets: list[Target]) -> dict[Target, None]:
        looks.append([target.rank for target in targets])
        clock[0] += 4.0
        return dict.fromkeys(targets)

    monkeypatch.setattr(rank_status, "main_stacks", unanswered)
    monkeypatch.setattr(rank_status.time, "monotonic", lambda: clock[0])
    reader = StatusReader(host="a")
    for ranks in range(1, 11):
        reader.sample([Target(rank=rank, pid=os.getpid()) for rank in range(ranks)])
        clock[0] += 5.0
    assert len(looks) == 2  # at 100 s and, of 50 s, once more after 44 s

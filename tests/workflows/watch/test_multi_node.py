"""Nodes that meet in a directory: who speaks, whose case counts, and whom nobody waits for."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.agent.inside.schema.call_ring import Header
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.ranks import JobSize, StepCount
from ddpdoctor.host import processes
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.workflows.watch import multi_node
from ddpdoctor.workflows.watch.multi_node import OtherNodes
from tests.flight_records import STEP, flights, waits

QUIET = 3600.0  # seconds: of a stall that began long before the test, however long the machine pauses in between


@pytest.fixture(autouse=True)
def _two_nodes_of_two_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The process of rank N has the number 100 + N, and what torchrun gives to it. Nobody waits long for a node."""
    monkeypatch.setattr(multi_node, "PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr(multi_node, "ANSWER_SECONDS", 0.5)
    names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
    monkeypatch.setattr(
        processes,
        "environ",
        lambda pid: dict(zip(names, (str(pid - 100), "4", str((pid - 100) % 2), "2"), strict=True)),
    )


def node(directory: Path | None, *ranks: int) -> OtherNodes:
    """A node whose ranks have just been seen."""
    nodes = OtherNodes(directory)
    nodes.beat([agent(rank) for rank in ranks])
    return nodes


def agent(rank: int, forwards: int = 0) -> RankProcess:
    header = Header(rank=rank, world_size=4, forwards=forwards)
    return RankProcess(directory=Path("/"), pid=100 + rank, header=header)


def steps(*ranks: int, made: int = 3) -> Evidence:
    """What a node knows of its ranks."""
    facts = (RankFacts(rank=rank, host=f"node{rank // 2}", facts=(StepCount(steps=made),)) for rank in ranks)
    return Evidence(ranks=tuple(facts))


def known(evidence: Evidence) -> dict[int, int | None]:
    found = evidence.per_rank(StepCount)
    return {entry.rank: entry.value.steps for entry in found or ()}


def test_the_node_of_rank_0_speaks_for_all_and_the_others_leave_it_to_it(tmp_path: Path) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    assert known(second.on_stall(steps(2, 3), QUIET)) == {2: 3, 3: 3}
    together = first.on_stall(steps(0, 1), QUIET)
    assert (known(together), together.notes) == ({0: 3, 1: 3, 2: 3, 3: 3}, ())
    assert (first.reports, second.reports) == (True, False)


def test_a_case_of_an_earlier_standstill_does_not_count(tmp_path: Path) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    second.on_stall(steps(2, 3), 5.0)
    old = time.time() - 60
    os.utime(tmp_path / "node-with-rank-2.json", (old, old))
    together = first.on_stall(steps(0, 1), 5.0)
    assert known(together) == {0: 3, 1: 3}
    assert "there is no evidence of ranks 2-3 of 4, on other nodes" in together.notes[0]


def test_a_standstill_that_a_node_has_left_is_not_joined_to_the_next_one(tmp_path: Path) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    second.on_stall(steps(2, 3), 5.0)
    second.clear_stall()
    assert known(first.on_stall(steps(0, 1), 5.0)) == {0: 3, 1: 3}


def test_at_the_end_the_last_word_of_a_node_counts(tmp_path: Path) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    second.on_stall(steps(2, 3, made=3), 5.0)
    assert known(first.on_exit(steps(0, 1), 1, None)) == {0: 3, 1: 3}
    second.on_exit(steps(2, 3, made=7), 1, None)
    assert known(first.on_exit(steps(0, 1), 1, None)) == {0: 3, 1: 3, 2: 7, 3: 7}


def test_nobody_waits_for_nodes_that_take_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(multi_node, "PATIENCE_SECONDS", 60.0)
    for directory in (tmp_path, None):
        alone = node(directory, 0, 1)
        began = time.monotonic()
        together = alone.on_stall(steps(0, 1), 5.0)
        assert time.monotonic() - began < 30
        assert "`ddpdoctor diagnose CASE...`" in together.notes[0]


def test_where_rank_0s_node_has_left_a_node_speaks_for_itself(tmp_path: Path) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    assert not second.reports
    first.on_exit(steps(0, 1), 0, None)
    first.close()
    assert not second.peer_node_failed()
    second.on_exit(steps(2, 3), 1, None)
    assert second.reports


@pytest.mark.parametrize("alive", [True, False])
def test_where_rank_0s_node_went_down_a_node_speaks_for_itself(
    alive: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)

    def sleeps(_seconds: float) -> None:
        if alive:  # healthy twin: it shows itself once more, and reports
            monkeypatch.setattr(first, "_next_beat", 0.0)
            first.beat([agent(0), agent(1)])

    monkeypatch.setattr(multi_node.time, "sleep", sleeps)
    second.on_exit(steps(2, 3), 1, None)
    assert second.reports != alive


def test_a_failure_that_rank_0s_node_has_told_is_not_told_again(tmp_path: Path) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    second.on_exit(steps(2, 3), 1, None)
    first.on_exit(steps(0, 1), 1, None)
    first.close()
    assert second.peer_node_failed()
    second.on_exit(steps(2, 3), 1, None)
    assert not second.reports


def test_a_node_that_goes_on_without_that_of_rank_0_speaks_under_its_new_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node(tmp_path, 0, 1)
    second = node(tmp_path, 2, 3)
    second.on_stall(steps(2, 3), 5.0)
    assert not second.reports
    alone = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "LOCAL_RANK": "0", "RANK": "0"}
    monkeypatch.setattr(processes, "environ", lambda _pid: alone)
    monkeypatch.setattr(second, "_next_beat", 0.0)
    second.beat([replace(agent(0), pid=200), replace(agent(1), pid=201)])
    assert second.reports
    together = second.on_stall(steps(0, 1), 5.0)
    assert (known(together), together.notes) == ({0: 3, 1: 3}, ())
    assert [file.name for file in tmp_path.glob("*.json")] == ["node-with-rank-0.json"]


def test_what_the_others_say_of_an_end_that_we_made_is_left_out(tmp_path: Path) -> None:
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    second.on_stall(steps(2, 3, made=3), 5.0)
    stood = first.on_stall(steps(0, 1), QUIET)
    second.on_exit(steps(2, 3, made=7), 1, None)
    assert known(first.on_exit(steps(0, 1, made=4), -15, stood)) == {0: 4, 1: 4, 2: 3, 3: 3}


def test_without_a_launcher_a_rank_that_trains_shows_that_the_others_are_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "environ", lambda _pid: {})
    starting, running = OtherNodes(tmp_path / "a"), OtherNodes(tmp_path / "b")
    starting.beat([agent(2), agent(3)])
    running.beat([agent(2, forwards=1), agent(3)])
    starting.on_exit(steps(2, 3), 1, None)
    running.on_exit(steps(2, 3), 1, None)
    assert (starting.wrote, running.wrote) == (False, True)
    assert (tmp_path / "b" / "node-with-rank-2.json").exists()


@pytest.mark.parametrize(("rank", "spawned"), [(3, False), (2, True)], ids=["a rank a task", "ranks spawned by a task"])
def test_each_task_of_srun_is_a_node_and_its_ranks_are_those_that_it_has(
    rank: int, spawned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {"SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NTASKS": "2", "SLURM_NTASKS_PER_NODE": "1"}
    if not spawned:
        task = {"SLURM_PROCID": "3", "SLURM_LOCALID": "1", "SLURM_NTASKS": "4", "SLURM_NTASKS_PER_NODE": "2"}
    for name, value in task.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(processes, "environ", lambda _pid: task)
    here = OtherNodes(tmp_path)
    here.beat([agent(number, forwards=1) for number in range(rank, 4)])
    here.on_exit(steps(*range(rank, 4)), 1, None)
    assert [file.name for file in tmp_path.glob("*.json")] == [f"node-with-rank-{rank}.json"]


def test_a_directory_that_cannot_be_written_leaves_each_node_to_itself(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    first = node(tmp_path / "file" / "case", 0, 1)
    assert known(first.on_stall(steps(0, 1), 5.0)) == {0: 3, 1: 3}
    assert (first.reports, first.wrote) == (True, False)


def test_a_directory_of_nodes_is_joined_by_diagnose(tmp_path: Path) -> None:
    from ddpdoctor.workflows.diagnose import gather

    node(tmp_path, 2, 3).on_exit(steps(2, 3), 1, None)
    node(tmp_path, 0, 1).on_exit(steps(0, 1), 1, None)
    assert known(gather([tmp_path])) == {0: 3, 1: 3, 2: 3, 3: 3}


def test_half_of_a_job_is_not_all_of_it() -> None:
    half = flights(*[[STEP, waits(STEP)]] * 2, backend="gloo")
    assert [finding.code for finding in diagnose(half).findings] == ["DDP314"]
    assert diagnose(replace(half, job=(*half.job, JobSize(ranks=4)))).findings == ()


def test_only_the_cases_that_changed_are_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    load = multi_node.case.load
    monkeypatch.setattr(multi_node.case, "load", lambda file: (read.append(file.name), load(file))[1])
    first, second = node(tmp_path, 0, 1), node(tmp_path, 2, 3)
    for made, reads in ((3, 1), (3, 1), (7, 2)):
        if made != 3 or not read:
            second.on_stall(steps(2, 3, made=made), QUIET)
        assert known(first.on_stall(steps(0, 1), QUIET)) == {0: 3, 1: 3, 2: made, 3: made}
        assert read == ["node-with-rank-2.json"] * reads

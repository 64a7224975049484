"""The jobs on this host, and which of their ranks have an agent that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.schema import call_ring as layout
from ddpdoctor.host import processes, running_jobs
from ddpdoctor.host.running_jobs import _agents, ended_for, find_jobs, joinings_of


@pytest.mark.parametrize("version", [layout.VERSION, layout.VERSION + 1], ids=["this version", "another version"])
def test_a_job_under_another_version_of_ddpdoctor_has_no_agents_and_the_reason_is_known(
    version: int, tmp_path: Path
) -> None:
    CallRing(str(tmp_path / "77.ring"), rank=1, world_size=2, restart=0)
    data = bytearray((tmp_path / "77.ring").read_bytes())
    layout.PREAMBLE.pack_into(data, 0, layout.MAGIC, version)
    (tmp_path / "77.ring").write_bytes(bytes(data))
    found, unread = _agents([str(tmp_path), ""])
    if version == layout.VERSION:
        assert ([agent.rank for agent in found], unread) == ([1], "")
    else:
        assert found == []
        assert unread == (
            f"the call ring of process 77 has format {layout.VERSION + 1}, and this ddpdoctor reads format {layout.VERSION}: "
            "use the ddpdoctor that the job was started with"
        )


BY_SHELL = {"RANK": "0", "WORLD_SIZE": "2"}
BY_TORCHRUN = {**BY_SHELL, "TORCHELASTIC_RUN_ID": "a", "LOCAL_WORLD_SIZE": "2"}
TRAIN = "python train.py"


@pytest.mark.parametrize(
    ("environ", "command", "started"),
    [
        (BY_TORCHRUN, TRAIN, 2),
        ({**BY_SHELL, "SLURM_STEP_NUM_TASKS": "2"}, TRAIN, 2),
        ({**BY_SHELL, "SLURM_STEP_NUM_TASKS": "1"}, TRAIN, None),  # one of several steps
        (BY_SHELL, TRAIN, None),  # may be the number of nodes, as in the ImageNet example of PyTorch
        (BY_TORCHRUN, "python -c from multiprocessing.spawn import spawn_main; spawn_main()", None),
        (BY_TORCHRUN, "python launch.py", None),  # a fork
    ],
)
def test_a_launcher_says_how_many_ranks_it_started_to_those_that_it_started_itself(
    environ: dict[str, str], command: str, started: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 12 is the rank, and 11, which started it, a program that the launcher or a shell started."""
    monkeypatch.setattr(processes, "parents", lambda: {12: 11, 11: 1, 1: 0})
    monkeypatch.setattr(processes, "environ", {12: environ, 11: {}}.get)
    monkeypatch.setattr(processes, "command", {12: command, 11: "python launch.py", 1: "init"}.get)
    assert joinings_of([12])[12].started == started


@pytest.mark.parametrize(
    ("joined", "jobs"),
    [
        pytest.param((11, 12), [(11, 12)], id="its children are loader workers"),
        pytest.param((), [(11, 12), (13, 14)], id="it starts ranks itself"),
    ],
)
def test_what_a_spawned_process_spawns_are_ranks_unless_it_is_one(
    joined: tuple[int, ...], jobs: list[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Process 10 spawned 11 and 12, and 11 spawned 13 and 14."""
    started_by = {10: 1, 11: 10, 12: 10, 13: 11, 14: 11}
    spawned = "python -c from multiprocessing.spawn import spawn_main; spawn_main()"
    monkeypatch.setattr(processes, "parents", lambda: started_by)
    monkeypatch.setattr(processes, "environ", lambda pid: {} if pid in started_by else None)
    monkeypatch.setattr(processes, "command", lambda pid: TRAIN if pid == 10 else spawned)
    monkeypatch.setattr(processes, "started_at", float)
    monkeypatch.setattr(running_jobs, "_has_torch", lambda pid: pid > 10)
    monkeypatch.setattr(running_jobs, "talking", lambda pids, _: tuple(pid for pid in pids if pid in joined))
    monkeypatch.setattr(running_jobs, "user_of", lambda _: 0)
    assert [job.pids for job in find_jobs().jobs] == jobs


@pytest.mark.parametrize(
    ("changed", "ended"),
    [
        ({}, {2: 0}),
        ({"LOCAL_WORLD_SIZE": "2"}, {}),  # it may run on another host
        ({"DDPDOCTOR_AGENT_DIR": "/elsewhere"}, {}),
        ({"TORCHELASTIC_RUN_ID": None}, {}),  # nobody would have ended the job
        ({"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, {}),
        ({"WORLD_SIZE": "262144", "LOCAL_WORLD_SIZE": "262144"}, {}),  # no host has so many
    ],
)
def test_a_rank_that_no_process_bears_has_ended_where_torchrun_started_all_here(
    changed: dict[str, str | None], ended: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = {name: value for name, value in (OF_THREE | changed).items() if value is not None}
    environs: dict[int, dict[str, str] | None] = {rank + 10: of_rank(rank, common) for rank in (0, 1)}
    play(environs, monkeypatch)
    assert ended_for(Path("/agents")) == ended
    environs[12] = of_rank(2, common)  # a shell that has not started the program yet
    assert ended_for(Path("/agents")) == {}
    environs[12] = None  # it may not be read
    assert ended_for(Path("/agents")) == {}


@pytest.mark.parametrize(
    ("zombies", "ended"),
    [
        ({11: 3}, {1: 3}),
        ({11: None}, {1: None}),
        ({11: 0}, {1: 0}),
        ({11: 3, 12: 0}, {1: 3, 2: 0}),
        ({10: 0, 12: 0}, {0: 0, 2: 0}),
        ({11: 3, 12: 3}, {1: 3, 2: 3}),
        ({12: 3}, {1: None, 2: None}),  # one of them has been asked for
        ({8: 3, 9: 0}, {1: None, 2: None}),  # older than rank 0: the launcher started other processes too
    ],
)
def test_a_rank_whose_launcher_has_not_asked_for_its_exit_code_is_not_said_to_have_ended_with_0(
    zombies: dict[int, int | None], ended: dict[int, int | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    environs: dict[int, dict[str, str] | None] = {
        rank + 10: of_rank(rank, OF_THREE) for rank in range(3) if rank not in ended
    }
    environs[20] = of_rank(next(rank for rank in range(3) if rank not in ended), OF_THREE)  # its orphan
    play(environs, monkeypatch, zombies)
    assert ended_for(Path("/agents")) == ended


OF_THREE = {
    "WORLD_SIZE": "3",
    "LOCAL_WORLD_SIZE": "3",
    "TORCHELASTIC_RUN_ID": "a",
    "DDPDOCTOR_AGENT_DIR": "/agents",
}


def of_rank(rank: int, common: dict[str, str]) -> dict[str, str]:
    return {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)}


def play(
    environs: dict[int, dict[str, str] | None],
    monkeypatch: pytest.MonkeyPatch,
    zombies: dict[int, int | None] | None = None,
) -> None:
    """A host where process 7 has started those of these that have a number below 20, and the zombies, by exit code."""
    codes = zombies or {}
    monkeypatch.setattr(processes, "all_pids", lambda: iter((7, *environs, *codes)))
    monkeypatch.setattr(
        processes, "parents", lambda: {7: 1, **{pid: 7 if pid < 20 else 1 for pid in (*environs, *codes)}}
    )
    monkeypatch.setattr(processes, "environ", lambda pid: {7: {}, **environs}.get(pid))
    monkeypatch.setattr(processes, "is_alive", lambda pid: pid not in codes)
    monkeypatch.setattr(processes, "exit_code", codes.get)
    monkeypatch.setattr(processes, "started_at", float)

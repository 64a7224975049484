"""The jobs on this host, and which of their ranks have an agent that can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.agent.inside.call_ring import CallRing
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
        ({}, (2,)),
        ({"LOCAL_WORLD_SIZE": "2"}, ()),  # it may run on another host
        ({"DDPDOCTOR_AGENT_DIR": "/elsewhere"}, ()),
        ({"TORCHELASTIC_RUN_ID": None}, ()),  # nobody would have ended the job
        ({"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}, ()),
    ],
)
def test_a_rank_that_no_process_bears_has_ended_where_torchrun_started_all_here(
    changed: dict[str, str | None], ended: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    common = {"WORLD_SIZE": "3", "LOCAL_WORLD_SIZE": "3", "TORCHELASTIC_RUN_ID": "a", "DDPDOCTOR_AGENT_DIR": "/agents"}
    common = {name: value for name, value in (common | changed).items() if value is not None}
    environs = {rank + 10: {**common, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in (0, 1)}
    monkeypatch.setattr(processes, "all_pids", lambda: iter((7, *environs)))
    monkeypatch.setattr(processes, "environ", environs.get)
    assert ended_for(Path("/agents")) == ended
    environs[12] = {**common, "RANK": "2", "LOCAL_RANK": "2"}  # a shell that has not started the program yet
    assert ended_for(Path("/agents")) == ()

"""What a process may use, read from the kernel or from a planted tree."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import pytest

from ddpdoctor.evidence import Missing
from ddpdoctor.evidence.limits import Cpu, Limits, SharedMemory
from ddpdoctor.host import limits
from ddpdoctor.host.host_access import HostAccess


def planted(root: Path, *shm: str, alive: tuple[int, ...] = (), **environ: str) -> dict[type, object]:
    (root / "dev" / "shm").mkdir(parents=True)
    for name in shm:
        (root / "dev" / "shm" / name).write_bytes(b"x" * 10)
    for pid in alive:
        (root / "proc" / str(pid)).mkdir(parents=True)
        (root / "proc" / str(pid) / "maps").write_text("7f00-7f01 rw-s 00000000 00:19 7 /dev/shm/nccl-held\n")
    return {type(fact): fact for fact in limits.collect(HostAccess(root=root, environ=environ))}


def test_this_machine_answers() -> None:
    facts = {type(fact): fact for fact in limits.collect(HostAccess())}

    assert facts[Limits].open_files == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert set(facts[Cpu].affinity) == os.sched_getaffinity(0)
    assert facts[SharedMemory].size_bytes > 0


def test_files_of_dead_processes_are_stale_and_those_of_living_ones_are_not(tmp_path: Path) -> None:
    facts = planted(tmp_path, "torch_41_9_0", "torch_42_9_0", "nccl-held", "nccl-lost", "other", alive=(42,))

    shm = facts[SharedMemory]
    assert (shm.stale_files, shm.stale_bytes) == (2, 20)
    assert shm.examples == ("nccl-lost", "torch_41_9_0")


def test_beside_processes_of_other_users_only_torchs_own_files_can_be_stale(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel shows /proc/PID/maps as readable by all, and refuses to open it."""
    read_text = Path.read_text

    def refused(path: Path, *arguments: object, **named: object) -> str:
        if path.name == "maps":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path, *arguments, **named)

    monkeypatch.setattr(Path, "read_text", refused)
    shm = planted(tmp_path, "torch_41_9_0", "nccl-lost", alive=(42,))[SharedMemory]
    assert shm.examples == ("torch_41_9_0",)


@pytest.mark.parametrize(("text", "threads"), [("4", 4), ("4,2", 4), ("", None), ("0", None), ("many", None)])
def test_omp_num_threads_is_read_as_openmp_reads_it(tmp_path: Path, text: str, threads: int | None) -> None:
    assert planted(tmp_path, OMP_NUM_THREADS=text)[Cpu].omp_threads == threads


def test_what_cannot_be_read_is_missing_with_the_reason(tmp_path: Path) -> None:
    facts = list(limits.collect(HostAccess(root=tmp_path)))

    reasons = {fact.kind: fact.reason for fact in facts if isinstance(fact, Missing)}
    assert reasons["SharedMemory"] == "/dev/shm cannot be read: No such file or directory"
    assert "MemTotal" in reasons["Memory"]

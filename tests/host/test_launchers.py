"""Which command lines run a launcher, and whose launchers are looked at."""

from __future__ import annotations

import os

import pytest

from ddpdoctor.host import processes
from ddpdoctor.host.launchers import all_launchers, launcher_name


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("torchrun --nproc-per-node 2 train.py", "torchrun"),
        ("/venv/bin/python3.11 /venv/bin/torchrun --nproc-per-node 2 train.py", "torchrun"),
        ("python -u -X dev -m torch.distributed.run train.py", "torchrun"),
        ("/usr/bin/srun -n 4 python train.py", "srun"),
        ("python -m accelerate.commands.launch train.py", "accelerate"),
        ("python train.py torchrun", None),
        ("python -m train torchrun", None),
        ("python -c torchrun", None),
        ("vim torchrun", None),
        ("", None),
    ],
)
def test_a_launcher_is_known_by_its_command_line(command: str, name: str | None) -> None:
    assert launcher_name(command.split()) == name


@pytest.mark.parametrize(("caller", "seen"), [(1000, [12]), (1001, [11, 13]), (0, [11, 12, 13])])
def test_the_launchers_of_other_users_are_those_of_other_jobs(
    monkeypatch: pytest.MonkeyPatch, caller: int, seen: list[int]
) -> None:
    """As on a login node, where everybody runs srun. Root looks at the job of any user."""
    users = {11: 1001, 12: 1000, 13: 1001, 14: 1000}
    monkeypatch.setattr(os, "geteuid", lambda: caller)
    monkeypatch.setattr(processes, "all_pids", lambda: iter(users))
    monkeypatch.setattr(processes, "user", users.get)
    monkeypatch.setattr(processes, "words", lambda pid: ["bash" if pid == 14 else "srun", "train.sh"])
    assert [launcher.pid for launcher in all_launchers()] == seen


def test_a_process_is_of_its_user() -> None:
    assert processes.user(os.getpid()) == os.geteuid()
    assert processes.user(1 << 30) is None

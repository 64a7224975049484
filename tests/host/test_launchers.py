"""Which command lines run a launcher."""

from __future__ import annotations

import pytest

from ddpdoctor.host.launchers import launcher_name


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

"""Launchers that run on this host: known by their command line, whether they have started ranks or not."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ddpdoctor.grouping import grouped
from ddpdoctor.host import processes

_REMOTE = frozenset({"srun", "mpirun", "mpiexec", "orterun", "prterun"})
PROGRAMS = _REMOTE | {"torchrun", "accelerate", "accelerate-launch", "deepspeed"}
MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torch.distributed.launch",
    "accelerate.commands.launch": "accelerate",
}
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LauncherProcess:
    """A running launcher."""

    pid: int
    """Its process id on this host."""
    name: str
    """`torchrun`, `srun`, `mpirun`."""
    command: str
    """Its command line."""

    @property
    def starts_elsewhere(self) -> bool:
        """Whether it starts ranks on other hosts."""
        return self.name in _REMOTE


def launchers_at(pid: int) -> tuple[LauncherProcess, ...]:
    """The launchers among `pid` and the processes below it, an outer one first."""
    children = grouped((parent, child) for child, parent in processes.parents().items())
    family = [pid]
    for one in family:
        family += [child for child in children.get(one, ()) if child not in family]
    return _among(family)


def all_launchers() -> tuple[LauncherProcess, ...]:
    """The launchers of the calling user on this host, for root those of all users, in the order of their process numbers."""
    user = os.geteuid()
    return _among(pid for pid in sorted(processes.all_pids()) if user in {0, processes.user(pid)})


def launcher_name(words: Sequence[str]) -> str | None:
    """The launcher that a command line runs, or None: `python -m torch.distributed.run train.py` runs torchrun."""
    if words and _PYTHON.fullmatch(PurePath(words[0]).name):
        words = _without_options(words[1:])
        if words and words[0] == "-m":
            return MODULES.get(words[1]) if len(words) > 1 else None
    first = PurePath(words[0]).name if words else ""
    return first if first in PROGRAMS else None


def _without_options(words: Sequence[str]) -> Sequence[str]:
    """A Python's arguments from its program on: `-u -X dev train.py` begins with `train.py`, `-m module` with `-m`."""
    at = 0
    while at < len(words) and words[at].startswith("-") and words[at] not in {"-m", "-c"}:
        at += 2 if words[at] in {"-X", "-W"} else 1
    return words[at:]


def _among(pids: Iterable[int]) -> tuple[LauncherProcess, ...]:
    named = ((pid, launcher_name(processes.words(pid))) for pid in pids)
    return tuple(
        LauncherProcess(pid=pid, name=name, command=processes.command(pid)) for pid, name in named if name is not None
    )

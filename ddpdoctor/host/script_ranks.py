"""Ranks that rank 0 of a host started as further runs of its own script, as Lightning and Fabric do without a launcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ddpdoctor.evidence.launch import Launch

_MARKS = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """The ranks of one job on this host. The process that started the others has set its variables too late to be seen."""

    parent: int
    """The process that started the others: local rank 0."""
    ranks: Mapping[int, int]
    """The process of each rank."""
    world_size: int
    """As the started processes have it."""


def script_jobs(environs: Mapping[int, Mapping[str, str]], parents: Mapping[int, int]) -> Iterator[ScriptJob]:
    """The jobs of which a process that no launcher started has started the other ranks of this host."""
    local_ranks = {
        pid: int(environ["LOCAL_RANK"])
        for pid, environ in environs.items()
        if all(environ.get(name) for name in _MARKS)
        and all(environ[name].isdecimal() for name in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE"))
        and Launch.from_environ(environ) is None
    }
    started: dict[int, dict[int, int]] = {}
    for pid, local_rank in local_ranks.items():
        parent = parents.get(pid, 0)
        if parent in environs and parent not in local_ranks and Launch.from_environ(environs[parent]) is None:
            started.setdefault(parent, {})[local_rank] = pid
    for parent, children in started.items():
        if 0 in children:  # a launcher of another kind, which is no rank itself
            continue
        environ = environs[min(children.values())]
        first = int(environ["NODE_RANK"]) * (max(children) + 1)
        ranks = {first + local_rank: pid for local_rank, pid in children.items()}
        yield ScriptJob(parent=parent, ranks={first: parent, **ranks}, world_size=int(environ["WORLD_SIZE"]))

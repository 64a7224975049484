"""Ranks that rank 0 of a host started as further runs of its own script, as Lightning and Fabric do without a launcher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ddpdoctor.evidence.launch import Launch
from ddpdoctor.whole_numbers import whole_number

_NUMBERS = ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE")


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
    marked = {pid: found for pid, environ in environs.items() if (found := _marks(environ)) is not None}
    started: dict[int, dict[int, int]] = {}
    for pid, marks in marked.items():
        parent = parents.get(pid, 0)
        if parent in environs and parent not in marked and Launch.from_environ(environs[parent]) is None:
            started.setdefault(parent, {})[marks.local_rank] = pid
    for parent, children in started.items():
        if 0 in children:  # a launcher of another kind, which is no rank itself
            continue
        marks = marked[min(children.values())]
        first = marks.node_rank * (max(children) + 1)
        ranks = {first + local_rank: pid for local_rank, pid in children.items()}
        yield ScriptJob(parent=parent, ranks={first: parent, **ranks}, world_size=marks.world_size)


@dataclass(frozen=True, slots=True)
class _Marks:
    """What a framework writes into the environment of a rank that it starts."""

    local_rank: int
    node_rank: int
    world_size: int


def _marks(environ: Mapping[str, str]) -> _Marks | None:
    """What marks a process as such a rank; None of any other, and of one that a launcher has started."""
    local_rank, node_rank, world_size = (whole_number(environ.get(name, "")) for name in _NUMBERS)
    addressed = environ.get("MASTER_ADDR") and environ.get("MASTER_PORT")
    if local_rank is None or node_rank is None or world_size is None or not addressed:
        return None
    return _Marks(local_rank, node_rank, world_size) if Launch.from_environ(environ) is None else None

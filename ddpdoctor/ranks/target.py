"""A running rank, as the readers of its process take it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ddpdoctor.host import processes
from ddpdoctor.ranks.agent_files import RankProcess


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A running rank."""

    rank: int
    """The rank in the job."""
    pid: int
    """Its process id on this host."""
    agent: RankProcess | None = None
    """Where its agent answers; None where the job was started without ddpdoctor."""


def targets_of(agents: Iterable[RankProcess]) -> tuple[Target, ...]:
    """The ranks that still run."""
    return tuple(
        Target(rank=agent.rank, pid=agent.pid, agent=agent) for agent in agents if processes.is_alive(agent.pid)
    )

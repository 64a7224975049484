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
    trains: int = 0
    """The kernel's number of the thread that trains, as its stacks showed it; 0 before anybody looked."""

    @property
    def thread(self) -> int:
        """The kernel's number of the thread that trains, as its agent tells or its stacks showed it, or of the main one."""
        told = self.agent.header.thread if self.agent is not None else self.trains
        return told if told and processes.has_thread(self.pid, told) else self.pid


def targets_of(agents: Iterable[RankProcess]) -> tuple[Target, ...]:
    """The ranks that still run."""
    return tuple(
        Target(rank=agent.rank, pid=agent.pid, agent=agent) for agent in agents if processes.is_alive(agent.pid)
    )

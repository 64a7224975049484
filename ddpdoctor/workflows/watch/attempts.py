"""How often the launcher of a job has started its ranks, and what the log shows of each attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ddpdoctor.evidence import Evidence
from ddpdoctor.logs.job_log import read_logs
from ddpdoctor.ranks.agent_files import RankProcess

MOST_ATTEMPTS = 20  # of a job that was restarted more often, the first ones


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempts:
    """The attempts of a job, numbered from 0."""

    log: Evidence | None
    """What the log shows of the last attempt, and of those before it; None where there is no log."""
    last: int
    """The number of the last attempt."""

    @classmethod
    def of(cls, ranks: Sequence[RankProcess], logs: Sequence[Path]) -> Attempts:
        """The attempts as the processes of the ranks show them, and the logs, which know of those that no rank joined."""
        restarts = max((agent.header.restart for agent in ranks), default=0)
        if not logs:
            return cls(log=None, last=restarts)
        try:
            log = read_logs(logs, restarts=restarts)
        except OSError:
            return cls(log=None, last=restarts)
        return cls(log=log, last=max(restarts, len(log.earlier)))

    @property
    def earlier(self) -> range:
        """The numbers of the attempts before the last one; of very many the first ones."""
        return range(min(self.last, MOST_ATTEMPTS))

    def printed_in(self, number: int) -> Evidence | None:
        """What the log shows of an earlier attempt; None where it shows other attempts than there were."""
        if self.log is None or len(self.log.earlier) != self.last:
            return None
        return self.log.earlier[number]

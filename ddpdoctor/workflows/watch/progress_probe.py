"""Whether a job that seems quiet still makes collectives of which only C++ knows."""

from __future__ import annotations

import json

from ddpdoctor.host.processes import is_alive
from ddpdoctor.ranks.agent_client import NoAnswer, ask_worker_server
from ddpdoctor.ranks.agent_files import RankProcess

ASK_SECONDS = 1.0
ANSWER_SECONDS = 0.5


class QuietMoves:
    """Asks the recorders of a quiet job whether collectives that only C++ makes still go on.

    A long accumulation makes no optimizer step; its buckets are all that moves.
    """

    def __init__(self) -> None:
        self._moves = 0
        self._at = 0.0
        self._last: dict[int, str] = {}

    def seen(self, ranks: tuple[RankProcess, ...], quiet: float) -> int:
        """How often the recorders were seen to move; asks them about once a second while nothing else moves."""
        if quiet < ASK_SECONDS:
            self._last, self._at = {}, 0.0
        elif quiet - self._at >= ASK_SECONDS:
            self._at = quiet
            for agent in ranks:
                status = _status(agent)
                before = self._last.get(agent.pid)
                if status is not None:
                    self._last[agent.pid] = status
                    self._moves += before is not None and before != status
        return self._moves


def _status(agent: RankProcess) -> str | None:
    if not is_alive(agent.pid):
        return None
    try:
        body = ask_worker_server(agent.file("sock"), "fr_trace_json", deadline_seconds=ANSWER_SECONDS)
        return json.dumps(json.loads(body).get("pg_status"))
    except (NoAnswer, ValueError, AttributeError):
        return None

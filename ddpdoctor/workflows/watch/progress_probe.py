"""Whether a job that seems quiet still makes collectives of which only C++ knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from ddpdoctor.agent.inside.process.recorder_socket import STATUS
from ddpdoctor.host.processes import is_alive
from ddpdoctor.ranks.agent_client import NoAnswer, ask_agent
from ddpdoctor.ranks.agent_files import RankProcess

ASK_SECONDS = 1.0
ANSWER_SECONDS = 0.5
MOST_AT_ONCE = 64  # a rank that is stopped costs the whole half second


class QuietMoves:
    """Asks the recorders of a quiet job whether collectives that only C++ makes still go on.

    A long accumulation makes no optimizer step; its buckets are all that moves.
    """

    def __init__(self) -> None:
        self._moves = 0
        self._at = 0.0
        self._last: dict[int, bytes] = {}

    def seen(self, ranks: tuple[RankProcess, ...], quiet: float) -> int:
        """How often the recorders were seen to move; asks them about once a second while nothing else moves."""
        if quiet < ASK_SECONDS:
            self._last, self._at = {}, 0.0
        elif quiet - self._at >= ASK_SECONDS:
            self._at = quiet
            with ThreadPoolExecutor(max_workers=min(MOST_AT_ONCE, max(1, len(ranks)))) as pool:
                answers = list(pool.map(_status, ranks))
            for agent, status in zip(ranks, answers, strict=True):
                before = self._last.get(agent.pid)
                if status is not None:
                    self._last[agent.pid] = status
                    self._moves += before is not None and before != status
        return self._moves


def _status(agent: RankProcess) -> bytes | None:
    """The last calls of each process group, pickled; None where the interpreter does not answer, and so makes no calls either."""
    if not is_alive(agent.pid):
        return None
    try:
        return ask_agent(agent.file("ask"), STATUS, deadline_seconds=ANSWER_SECONDS)
    except NoAnswer:
        return None

"""Whether a job that seems quiet still makes collectives of which only C++ knows."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import msgspec

from ddpdoctor.host.processes import is_alive
from ddpdoctor.ranks.agent_client import NoAnswer, ask_worker_server
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


class _Recorder(msgspec.Struct):
    """What is read of a recorder: the calls in it, a megabyte per rank, are passed over."""

    pg_status: msgspec.Raw = msgspec.Raw()


def _status(agent: RankProcess) -> bytes | None:
    if not is_alive(agent.pid):
        return None
    try:
        body = ask_worker_server(agent.file("sock"), "fr_trace_json", deadline_seconds=ANSWER_SECONDS)
        return bytes(msgspec.json.decode(body, type=_Recorder).pg_status)
    except (NoAnswer, msgspec.MsgspecError):
        return None

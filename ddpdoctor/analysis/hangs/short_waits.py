"""Whether a rank that others wait for may only be at work: by dumps alone, a wait that is short proves no hang."""

from __future__ import annotations

import math
from collections.abc import Iterator

from ddpdoctor.analysis.hangs.wait_for_graph import WaitForGraph

AT_WORK_SECONDS = 30.0  # loading data, an evaluation or a checkpoint on one rank keeps its peers waiting for as long


def seconds_so_far(graph: WaitForGraph) -> float | None:
    """For how long the others have waited, where that is not longer than in a healthy job; else None."""
    seconds = max((age for operation in graph.operations for age in operation.ages), default=None)
    if seconds is None:
        return None
    return seconds if min(seconds, _seconds_away(graph)) < min((AT_WORK_SECONDS, *_timeouts(graph))) else None


def _seconds_away(graph: WaitForGraph) -> float:
    """How long ago the ranks made their last calls, endless where a dump does not tell: peers may have queued many ahead."""
    last = graph.last_calls()
    ages = [last[rank].seconds if rank in last else None for rank in graph.ranks]
    return max((age if age is not None else math.inf for age in ages), default=math.inf)


def _timeouts(graph: WaitForGraph) -> Iterator[float]:
    """After how many seconds the calls in which ranks wait time out: their dumps are made then."""
    for operation in graph.operations:
        for issued in operation.waiting.values():
            yield from (call.timeout_ms / 1000 for call in issued.calls if call.timeout_ms is not None)

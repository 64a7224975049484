"""Which ranks of a running job to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from ddpdoctor.evidence.rank_status import RankStatus

QUIET_SECONDS = 3.0  # without progress: longer than a step of most jobs
SILENT = "no report"  # the state of a rank whose node has stopped reporting
PROCESS_STATES = {"T": "stopped", "t": "traced", "D": "uninterruptible IO", "Z": "ended"}


def ranks_to_look_at(statuses: Sequence[RankStatus]) -> frozenset[int]:
    """The ranks to look at: the few that do not wait where most of the job waits, and the stopped, ended and silent ones."""
    marked = {status.rank for status in statuses if status.state in {*PROCESS_STATES.values(), SILENT}}
    waiting = {status.rank for status in statuses if status.waits_for_peers}
    others = {status.rank for status in statuses} - waiting
    quiet = all((status.idle_seconds or 0.0) > QUIET_SECONDS for status in statuses)
    if waiting and quiet and len(others) < len(waiting):
        marked |= others
    return frozenset(marked)

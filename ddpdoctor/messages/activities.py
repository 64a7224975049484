"""What ranks are doing, one line for all that do the same."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.model import group_ranks

MAX_PIDS = 8


def lines(activities: Activities) -> Iterator[str]:
    """`ranks 0-1,3: each waits in a collective (backward) at /job/train.py:61 in main, on CPU 100 % (process 11, 12, 14)`."""
    groups: dict[str, list[RankActivity]] = {}
    for activity in activities.each:
        if activity.process is None:
            continue  # it ended between two snapshots
        operation = f" ({activity.operation})" if activity.operation and activity.waits_for_peers else ""
        place = (
            f" at {activity.place.file}:{activity.place.line} in {activity.place.function}" if activity.place else ""
        )
        groups.setdefault(f"{activity.description}{operation}{place}", []).append(activity)
    for text, alike in groups.items():
        shares = [share for one in alike if one.process and (share := one.process.cpu_share) is not None]
        cpu = f", on CPU {100 * max(shares):.0f} %" if shares else ""
        pids = ", ".join(str(one.process.pid) for one in alike[:MAX_PIDS] if one.process)
        each = "each " if len(alike) > 1 else ""
        yield f"{group_ranks([one.rank for one in alike])}: {each}{text}{cpu} (process {pids})"

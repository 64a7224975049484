"""Whether a rank works while its peers wait, as one does that alone evaluates, compiles or saves a checkpoint."""

from __future__ import annotations

from ddpdoctor.analysis.hangs.rank_activity import BUSY_SHARE, RankActivity, moves_data
from ddpdoctor.analysis.hangs.stack_patterns import Activity

_WORK = frozenset({Activity.COMPUTING, Activity.FILE, Activity.IMPORTING})


def is_at_work(activity: RankActivity) -> bool:
    """Whether it computes at lines that change, or it or a program that it started reads, writes or computes.

    A line that does not change may be a loop without an end, and a rank that sleeps between two looks polls for something.
    """
    process = activity.process
    if activity.moved and activity.kind in _WORK:
        return True
    if process is None:
        return False
    shares = [child.cpu_share or 0.0 for child in process.children if child.kind == "subprocess"]
    return moves_data(process) or any(share >= BUSY_SHARE for share in shares)

"""Whether a rank works while its peers wait, as one does that alone evaluates, compiles or saves a checkpoint."""

from __future__ import annotations

from ddpdoctor.analysis.hangs.rank_activity import IDLE_SHARE, RankActivity, moves_data
from ddpdoctor.analysis.hangs.stack_patterns import Activity

_WORK = frozenset({Activity.COMPUTING, Activity.FILE, Activity.IMPORTING})
# where the bytes of the process can be those of its main thread; beside one that waits they are another thread's
_MAY_MOVE_DATA = _WORK | {Activity.UNKNOWN}
_MAY_COUNT = _WORK | {Activity.UNKNOWN, Activity.SLEEP, Activity.SOCKET, Activity.PIPE}


def is_at_work(activity: RankActivity) -> bool:
    """Whether it computes at lines that change, counts, reads or writes, or waits for a program that computes.

    A line that does not change may be a loop without an end, and a rank that sleeps between two looks polls for something, unless
    a number in its functions changes: it makes progress.
    A rank that waits for a lock, another thread, a pipe or a connection is not at work, whatever its other threads and
    its logging services do meanwhile. One that counts what it reads from a pipe or a connection is.
    """
    process = activity.process
    if activity.counts and activity.kind in _MAY_COUNT:
        return True
    if activity.moved and activity.kind in _WORK:
        return True
    if process is None:
        return False
    if activity.kind is Activity.SUBPROCESS:
        shares = [child.cpu_share or 0.0 for child in process.children if child.kind == "subprocess"]
        return any(share >= IDLE_SHARE for share in shares)
    return activity.kind in _MAY_MOVE_DATA and moves_data(process)

"""Whether a rank works while its peers wait, as one does that alone evaluates, compiles or saves a checkpoint."""

from __future__ import annotations

from ddpdoctor.analysis.hangs.movement import moves_data
from ddpdoctor.analysis.hangs.rank_activity import IDLE_SHARE, RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.evidence.process import ChildKind, ProcessState

_WORK = frozenset({Activity.COMPUTING, Activity.FILE, Activity.IMPORTING})
# where the bytes of the process can be those of its main thread; beside one that waits they are another thread's
_MAY_MOVE_DATA = _WORK | {Activity.UNKNOWN}
_HANDED_OVER = frozenset({Activity.LOCK, Activity.HANDOVER})
_MAY_COUNT = _WORK | {Activity.UNKNOWN, Activity.SLEEP, Activity.SOCKET, Activity.PIPE}


def is_at_work(activity: RankActivity) -> bool:
    """Whether it computes at lines that change, counts, reads or writes, or waits for a program that computes.

    A line that does not change may be a loop without an end, and a rank that sleeps between two snapshots polls, unless
    a number in its functions changes: it makes progress.
    A rank that waits for a lock, another thread, a pipe or a connection is not at work, whatever its logging services do
    meanwhile. One that counts what it reads from a pipe or a connection is, and so is one that gets something from a connection,
    one whose event loop turns, and one that waits for a lock or a thread while a thread of the user's or a worker process works.
    """
    process = activity.process
    if activity.counts and activity.kind in _MAY_COUNT:
        return True
    if activity.moved and activity.kind in _WORK:
        return True
    if activity.others_work and (activity.kind in _HANDED_OVER or activity.gives_work_away):
        return True
    if process is None:
        return False
    if activity.receives:
        return True
    if activity.kind is Activity.SUBPROCESS:
        return _uses_a_cpu(process, "subprocess", "data loader worker")
    if activity.kind is Activity.UNKNOWN and activity.gives_work_away and _uses_a_cpu(process, "subprocess"):
        return True  # an event loop that waits for a program
    if activity.kind is Activity.HANDOVER and _uses_a_cpu(process, "data loader worker"):
        return True
    return activity.kind in _MAY_MOVE_DATA and moves_data(process)


def _uses_a_cpu(process: ProcessState, *kinds: ChildKind) -> bool:
    """Whether a child of one of these kinds does; the processes of a pool are told as workers of a loader are."""
    return any((child.cpu_share or 0.0) >= IDLE_SHARE for child in process.children if child.kind in kinds)

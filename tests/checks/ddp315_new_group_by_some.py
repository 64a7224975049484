"""One rank alone in new_group; a rank that left it out; groups that all ranks made; the same by stacks alone."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, NewGroup
from ddpdoctor.evidence.source import CodePlace, Condition, SourceCode
from tests.checks import Sick, at, ranks
from tests.checks.ddp305_collective_called_by_some import SEEN
from tests.flight_records import STEP, record, waits
from tests.hangs import C10D, TORCH, hang, rank, stack

PLACE = Frame(file="/home/me/job/train.py", line=30, function="main")
MADE = CollectiveCalls(new_groups=(NewGroup(ranks=(0, 1), returned=True, place=PLACE),))
WAITS = CollectiveCalls(new_groups=(NewGroup(ranks=(0, 1), returned=False, place=PLACE),))
NONE = CollectiveCalls()
IN_NEW_GROUP = stack(
    (C10D, 970, "_store_based_barrier"),
    (C10D, 5500, "_new_group_with_tag"),
    (C10D, 5400, "new_group"),
    (f"{TORCH}/distributed/c10d_logger.py", 83, "wrapper"),
    user=(88, "train_step"),
)


def under(test: str) -> SourceCode:
    """The line of `new_group` below an `if` of this test."""
    conditions = (Condition(line=29, test=test, branch=0),)
    return SourceCode(places=(CodePlace(file=PLACE.file, line=30, function="main", conditions=conditions),))


SICK = (
    Sick(
        evidence=ranks(WAITS, NONE, NONE, NONE),
        says="rank 0 waits in new_group number 1 (of ranks 0-1) that ranks 1-3 never call",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:30 main",),
        measured={"new_groups": {"0": 1, "1": 0, "2": 0, "3": 0}},
    ),
    Sick(
        evidence=ranks(WAITS, WAITS, NONE),
        says="ranks 0-1 wait in new_group number 1 (of ranks 0-1) that rank 2 never calls",
        ranks=(2,),
        where=("rank 0 /home/me/job/train.py:30 main", "rank 1 /home/me/job/train.py:30 main"),
        measured={"new_groups": {"0": 1, "1": 1, "2": 0}},
    ),
    Sick(  # of two ranks: a test of the rank above the call tells
        evidence=replace(ranks(WAITS, NONE), job=(under("rank == 0"),)),
        says="rank 0 waits in new_group number 1 (of ranks 0-1) that rank 1 never calls",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:30 main",),
        measured={"new_groups": {"0": 1, "1": 0}},
    ),
    Sick(  # and another test does not
        evidence=replace(ranks(WAITS, NONE), job=(under("epoch == 0"),)),
        says="rank 0 waits in new_group number 1 (of ranks 0-1) that rank 1 never calls; no majority: either side may be at "
        "fault",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:30 main",),
        measured={"new_groups": {"0": 1, "1": 0}},
    ),
    Sick(
        evidence=hang(rank(IN_NEW_GROUP), rank(), rank(), facts=(SEEN,), seconds=None),
        says="rank 0 waits in new_group while ranks 1-2 wait in backward",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 train_step", *at("/job/train.py:61 train_step", 1, 2)),
    ),
    Sick(
        evidence=hang(rank(IN_NEW_GROUP), rank(IN_NEW_GROUP), rank(), facts=(SEEN,), seconds=None),
        says="rank 2 waits in backward while ranks 0-1 wait in new_group",
        ranks=(2,),
        where=("rank 2 /job/train.py:61 train_step", *at("/job/train.py:88 train_step", 0, 1)),
    ),
    Sick(  # recorders do not show new_group
        evidence=hang(
            (*rank(IN_NEW_GROUP), record([STEP])),
            *[(*rank(), record([STEP, waits(STEP)]))] * 2,
            facts=(SEEN,),
            seconds=None,
        ),
        says="rank 0 waits in new_group while ranks 1-2 wait in backward",
        ranks=(0,),
        where=("rank 0 /job/train.py:88 train_step", *at("/job/train.py:61 train_step", 1, 2)),
    ),
)
HEALTHY = (ranks(MADE, MADE),)

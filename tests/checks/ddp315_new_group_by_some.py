"""One rank alone in new_group; a rank that left it out; groups that all ranks made."""

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, NewGroup
from tests.checks import Sick, ranks

PLACE = Frame(file="/home/me/job/train.py", line=30, function="main")
MADE = CollectiveCalls(new_groups=(NewGroup(ranks=(0, 1), returned=True, place=PLACE),))
WAITS = CollectiveCalls(new_groups=(NewGroup(ranks=(0, 1), returned=False, place=PLACE),))
NONE = CollectiveCalls()

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
)
HEALTHY = (ranks(MADE, MADE),)

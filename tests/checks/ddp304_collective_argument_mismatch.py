"""A reduce operation and a root that differ; calls that agree."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls
from ddpdoctor.evidence.stacks import GivenRoot
from tests.checks import Sick, at, ranks

PLACE = Frame(file="/home/me/job/train.py", line=70, function="log")
SUM = CollectiveCall(op="all_reduce", group="0", seq=7, reduce_op="SUM", place=PLACE)
MAX = replace(SUM, reduce_op="MAX")
FROM_0 = CollectiveCall(op="broadcast", group="0", seq=8, root=0, place=PLACE)
FROM_2 = replace(FROM_0, root=2)
OF_FIRST = replace(FROM_0, group="1")
OF_SECOND = replace(FROM_0, group="2", root=2)
ROOT_0 = GivenRoot(op="broadcast", root=0, place=PLACE)


def saw(*calls: CollectiveCall) -> CollectiveCalls:
    return CollectiveCalls(calls=calls)


SICK = (
    Sick(
        evidence=ranks(saw(SUM), saw(SUM), saw(MAX), saw(SUM)),
        says="all_reduce #7 was called with different ops: rank 2 op MAX and ranks 0-1,3 op SUM",
        ranks=(2,),
        where=at("/home/me/job/train.py:70 log", 2, 0, 1, 3),
        measured={"argument": "reduce_op", "seq": 7, "passed": {"0": "SUM", "1": "SUM", "2": "MAX", "3": "SUM"}},
    ),
    Sick(
        evidence=ranks(saw(SUM, FROM_0), saw(SUM, FROM_2)),
        says="broadcast #8 was called with different roots: rank 0 root 0 and rank 1 root 2",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:70 log", "rank 1 /home/me/job/train.py:70 log"),
        measured={"argument": "root", "seq": 8, "passed": {"0": "0", "1": "2"}},
    ),
    Sick(  # in the other group the first member is the root
        evidence=ranks(saw(OF_FIRST), saw(OF_FIRST), saw(OF_SECOND), saw(replace(OF_SECOND, root=3))),
        says="broadcast #8 was called with different roots: rank 3 root 3 and rank 2 root 2",
        ranks=(3,),
        where=("rank 3 /home/me/job/train.py:70 log", "rank 2 /home/me/job/train.py:70 log"),
        measured={"argument": "root", "seq": 8, "passed": {"2": "2", "3": "3"}},
    ),
    Sick(  # told by stacks alone
        evidence=ranks(ROOT_0, ROOT_0, replace(ROOT_0, root=2)),
        says="broadcast was called with different roots: rank 2 root 2 and ranks 0-1 root 0",
        ranks=(2,),
        where=tuple(f"rank {rank} /home/me/job/train.py:70 log" for rank in (2, 0, 1)),
        measured={"argument": "root", "passed": {"0": "0", "1": "0", "2": "2"}},
    ),
    Sick(
        evidence=ranks(ROOT_0, replace(ROOT_0, root=2)),
        says="broadcast was called with different roots: rank 0 root 0 and rank 1 root 2; no majority: either side may be at "
        "fault",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:70 log", "rank 1 /home/me/job/train.py:70 log"),
        measured={"argument": "root", "passed": {"0": "0", "1": "2"}},
    ),
)
HEALTHY = (ranks(saw(SUM, FROM_0), saw(SUM, FROM_0)), ranks(ROOT_0, ROOT_0))

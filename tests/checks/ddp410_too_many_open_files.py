"""No descriptor left, in the words of Python and of torch."""

from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.limits import Limits
from tests.checks import Sick
from tests.rank_ends import FINE, LOST_PEER, ended, raised

WORDS = "[Errno 24] Too many open files: '/dev/null'"

SICK = (
    Sick(
        evidence=ended(LOST_PEER, raised(WORDS, "OSError")),
        says="rank 1 had too many open files",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"limit": None},
    ),
    Sick(
        evidence=Evidence(
            ranks=(RankFacts(rank=0, host="a", facts=(raised(WORDS, "OSError"), Limits(open_files=1 << 20))),)
        ),
        says="rank 0 had too many open files; its limit is 1048576",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"limit": 1048576},
    ),
)
HEALTHY = (ended(FINE, FINE),)

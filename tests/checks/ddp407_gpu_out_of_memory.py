"""CUDA's own words about memory."""

from tests.checks import Sick
from tests.rank_ends import FINE, LOST_PEER, ended, raised

OUT = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.06 GiB is free. "
    "Process 4242 has 77.9 GiB memory in use."
)

SICK = (
    Sick(
        evidence=ended(LOST_PEER, raised(OUT, "OutOfMemoryError")),
        says="rank 1 ran out of GPU memory asking for 2.00 GiB: 1.06 GiB of 79.15 GiB was free on GPU 1",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"requested": "2.00 GiB", "free": "1.06 GiB", "total": "79.15 GiB"},
    ),
)
HEALTHY = (ended(FINE, FINE),)

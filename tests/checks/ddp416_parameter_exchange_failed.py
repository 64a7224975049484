"""A number of parameters that no model has."""

from tests.checks import Sick
from tests.rank_ends import FINE, ended, raised


def told(count: int) -> str:
    return (
        "DDP expects same model across all ranks, but Rank 0 has 161 params, "
        f"while rank 1 has inconsistent {count} params."
    )


SICK = (
    Sick(
        evidence=ended(raised(told(0)), None),
        says="rank 0 received the impossible parameter count 0 from rank 1 (its own: 161): the exchange was corrupted",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"has": 161, "read": 0},
    ),
    Sick(
        evidence=ended(raised(told(1506656875)), None),
        says="rank 0 received the impossible parameter count 1506656875 from rank 1 (its own: 161): the exchange was corrupted",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"has": 161, "read": 1506656875},
    ),
)
HEALTHY = (ended(FINE, FINE),)

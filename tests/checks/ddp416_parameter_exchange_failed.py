"""A number of parameters that no model has."""

from tests.checks import Sick
from tests.endings import FINE, ended, raised


def told(count: int) -> str:
    return (
        "DDP expects same model across all ranks, but Rank 0 has 161 params, "
        f"while rank 1 has inconsistent {count} params."
    )


SICK = (
    Sick(
        evidence=ended(raised(told(0)), None),
        says="rank 0 read from rank 1 that its model has 0 parameters, which no model has; it has 161 itself",
        ranks=(1,),
    ),
    Sick(
        evidence=ended(raised(told(1506656875)), None),
        says="rank 0 read from rank 1 that its model has 1506656875 parameters, which no model has; it has 161 itself",
        ranks=(1,),
    ),
)
HEALTHY = (ended(FINE, FINE),)

"""Replicas that start from other weights."""

from __future__ import annotations

from tests.checks import Sick
from tests.checks.replicas import rank_1_is_odd, replicas, sign_of_zero

SICK = (
    Sick(
        evidence=replicas(stepped=False, values=rank_1_is_odd("parameter", "0.weight", "0.bias")),
        says="0.weight[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, "
        "a difference of 0.0004; 2 parameters differ",
        ranks=(1,),
    ),
    Sick(
        evidence=replicas(stepped=False, values=sign_of_zero("parameter", "0.weight")),
        says="0.weight[5, 2] is 0 on ranks 0-1 and -0 on ranks 2-3: only the sign of zero differs; "
        "it cannot be told which side is right",
        ranks=(0, 1, 2, 3),
    ),
)
HEALTHY = (replicas(stepped=False),)

"""Buffers that are not the same on all ranks."""

from __future__ import annotations

from tests.checks import Sick
from tests.checks.replicas import rank_1_is_odd, replicas, sign_of_zero

SICK = (
    Sick(
        evidence=replicas(
            stepped=True,
            values=rank_1_is_odd("buffer", "bn.running_mean", "bn.running_var"),
            in_forward=True,
            step=3,
            steps=40,
        ),
        says="at step 3 of 40: bn.running_mean[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, "
        "a difference of 0.0004; 2 buffers differ",
        ranks=(1,),
    ),
    Sick(
        evidence=replicas(stepped=True, values=sign_of_zero("buffer", "bn.running_mean")),
        says="bn.running_mean[5, 2] is 0 on ranks 0-1 and -0 on ranks 2-3: only the sign of zero differs; "
        "it cannot be told which side is right",
        ranks=(0, 1, 2, 3),
    ),
)
HEALTHY = (replicas(stepped=True),)

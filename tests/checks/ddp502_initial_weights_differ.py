"""Replicas that start from other weights."""

from __future__ import annotations

from tests.checks import Sick
from tests.checks.replicas import rank_1_differs, replicas, sign_of_zero

SICK = (
    Sick(
        evidence=replicas(stepped=False, values=rank_1_differs("parameter", "0.weight", "0.bias")),
        says="0.weight[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, "
        "a difference of 0.0004; 2 parameters differ",
        ranks=(1,),
        measured={
            "step": None,
            "tensor": "0.weight",
            "index": [5, 2],
            "values": {"ranks 0,2-3": "0.0131", "rank 1": "0.0127"},
            "difference": 0.0004,
            "extent": "1 of 128 elements",
            "kind": "value",
            "tensors": ["0.weight", "0.bias"],
        },
    ),
    Sick(
        evidence=replicas(stepped=False, values=sign_of_zero("parameter", "0.weight")),
        says="0.weight[5, 2] is 0 on ranks 0-1 and -0 on ranks 2-3: only the sign of zero differs; "
        "no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        measured={
            "step": None,
            "tensor": "0.weight",
            "index": [5, 2],
            "values": {"ranks 0-1": "0", "ranks 2-3": "-0"},
            "difference": 0.0,
            "extent": "",
            "kind": "sign of zero",
            "tensors": ["0.weight"],
        },
    ),
)
HEALTHY = (replicas(stepped=False),)

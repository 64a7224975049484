"""Momentum that is not the same on all ranks."""

from __future__ import annotations

from ddpdoctor.evidence.replicas import Side, StructureDifference
from tests.checks import Sick
from tests.checks.replicas import rank_1_differs, replicas, sign_of_zero

ABSENT = StructureDifference(
    role="optimizer state",
    name="0.weight.exp_avg",
    aspect="presence",
    sides=(Side(ranks=(0, 1, 2), says="present"), Side(ranks=(3,), says="absent")),
)

SICK = (
    Sick(
        evidence=replicas(stepped=True, values=rank_1_differs("optimizer state", "0.weight.exp_avg", "0.bias.exp_avg")),
        says="0.weight.exp_avg[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, "
        "a difference of 0.0004; 2 state tensors differ",
        ranks=(1,),
        measured={
            "step": None,
            "tensor": "0.weight.exp_avg",
            "index": [5, 2],
            "values": {"ranks 0,2-3": "0.0131", "rank 1": "0.0127"},
            "difference": 0.0004,
            "extent": "1 of 128 elements",
            "kind": "value",
            "tensors": ["0.weight.exp_avg", "0.bias.exp_avg"],
        },
    ),
    Sick(
        evidence=replicas(stepped=True, values=sign_of_zero("optimizer state", "0.weight.exp_avg")),
        says="0.weight.exp_avg[5, 2] is 0 on ranks 0-1 and -0 on ranks 2-3: only the sign of zero differs; "
        "no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        measured={
            "step": None,
            "tensor": "0.weight.exp_avg",
            "index": [5, 2],
            "values": {"ranks 0-1": "0", "ranks 2-3": "-0"},
            "difference": 0.0,
            "extent": "",
            "kind": "sign of zero",
            "tensors": ["0.weight.exp_avg"],
        },
    ),
    Sick(
        evidence=replicas(stepped=True, structure=(ABSENT, ABSENT)),
        says="0.weight.exp_avg is present on ranks 0-2 and absent on rank 3; 2 state tensors differ in structure",
        ranks=(3,),
        measured={
            "tensor": "0.weight.exp_avg",
            "step": None,
            "aspect": "presence",
            "tensors": ["0.weight.exp_avg", "0.weight.exp_avg"],
        },
    ),
)
HEALTHY = (replicas(stepped=True),)

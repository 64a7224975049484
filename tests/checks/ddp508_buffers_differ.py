"""Buffers that are not the same on all ranks."""

from __future__ import annotations

from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.checks.replicas import rank_1_differs, replicas, sign_of_zero

SICK = (
    Sick(
        evidence=replicas(
            stepped=True,
            values=rank_1_differs("buffer", "bn.running_mean", "bn.running_var"),
            in_forward=True,
            step=3,
            steps=40,
        ),
        says="at step 3 of 40: bn.running_mean[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, "
        "a difference of 0.0004; 2 buffers differ",
        ranks=(1,),
        measured={
            "step": 3,
            "tensor": "bn.running_mean",
            "index": [5, 2],
            "values": {"ranks 0,2-3": "0.0131", "rank 1": "0.0127"},
            "difference": 0.0004,
            "extent": "1 of 128 elements",
            "kind": "value",
            "tensors": ["bn.running_mean", "bn.running_var"],
        },
    ),
    Sick(
        evidence=replicas(stepped=True, values=sign_of_zero("buffer", "bn.running_mean")),
        says="bn.running_mean[5, 2] is 0 on ranks 0-1 and -0 on ranks 2-3: only the sign of zero differs; "
        "no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        measured={
            "step": None,
            "tensor": "bn.running_mean",
            "index": [5, 2],
            "values": {"ranks 0-1": "0", "ranks 2-3": "-0"},
            "difference": 0.0,
            "extent": "",
            "kind": "sign of zero",
            "tensors": ["bn.running_mean"],
        },
        severity=Severity.INFO,
    ),
)
HEALTHY = (replicas(stepped=True),)

"""Replicas that came apart while they were trained."""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.evidence.source import Condition, Request, SourceCode
from tests.checks import Sick
from tests.checks.replicas import rank_1_differs, replicas, sign_of_zero

DIFFERS = Sick(
    evidence=replicas(stepped=True, values=rank_1_differs("parameter", "0.weight", "0.bias"), step=3, steps=40),
    says="at step 3 of 40: 0.weight[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, "
    "a difference of 0.0004; 2 parameters differ",
    ranks=(1,),
    measured={
        "step": 3,
        "tensor": "0.weight",
        "index": [5, 2],
        "values": {"ranks 0,2-3": "0.0131", "rank 1": "0.0127"},
        "difference": 0.0004,
        "extent": "1 of 128 elements",
        "kind": "value",
        "tensors": ["0.weight", "0.bias"],
    },
)


def written(*requests: Request, shown: int = 0) -> Sick:
    """The same, and the source has these statements that write weights."""
    job = (*DIFFERS.evidence.job, SourceCode(requests=requests))
    where = (f"rank 1 /job/train.py:{shown} on_epoch_end",) if shown else ()
    return replace(DIFFERS, evidence=replace(DIFFERS.evidence, job=job), where=where)


def write(line: int, test: str) -> Request:
    return Request(
        file="/job/train.py", line=line, function="on_epoch_end", text="self.head.weight.data.mul_(0.9)", wants="weights",
        conditions=(Condition(line=line, test=test, branch=0),),
    )  # fmt: skip


SICK = (
    DIFFERS,
    written(write(60, "rank == 1"), write(70, "rank == 0"), write(80, "step == 0"), shown=60),
    written(write(60, "rank == 1"), write(70, "rank == 1")),  # which of them wrote is not known
    Sick(
        evidence=replicas(stepped=True, values=sign_of_zero("parameter", "0.weight")),
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
HEALTHY = (replicas(stepped=True),)

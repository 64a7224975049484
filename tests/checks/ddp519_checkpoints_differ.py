"""Checkpoints of four ranks that do not hold the same."""

from __future__ import annotations

from ddpdoctor.evidence.checkpoints import Checkpoints
from ddpdoctor.evidence.replicas import Element, Side, StructureDifference, ValueDifference
from ddpdoctor.model import Severity
from tests.checks import Sick, job


def checkpoints(**found):
    return job(
        Checkpoints(
            files=tuple((rank, f"step40/rank{rank}.pt") for rank in range(4)),
            tensors=18, bytes=72, compared={"parameter": 18, "buffer": 3, "optimizer state": 40}, **found,
        )
    )  # fmt: skip


def differing(name: str, *sides: Side, role="parameter", **more) -> ValueDifference:
    return ValueDifference(role=role, name=name, sides=sides, **more)


ONE = differing(
    "0.weight", Side(ranks=(0, 2, 3), says="0.0131"), Side(ranks=(1,), says="0.0127"),
    element=Element(index=(5, 2), values=("0.0131", "0.0127"), difference=0.0004), extent="1 of 128 elements",
)  # fmt: skip
RATE = differing(
    "optimizer.param_groups[0].lr", Side(ranks=(0, 1), says="0.1"), Side(ranks=(2, 3), says="0.05"),
    role="optimizer state",
)  # fmt: skip
MEAN = differing(
    "1.running_mean", Side(ranks=(0,)), Side(ranks=(1,)), Side(ranks=(2,)), Side(ranks=(3,)), role="buffer"
)
OTHER_MODEL = StructureDifference(
    role="parameter", name="fc.weight", aspect="shape",
    sides=(Side(ranks=(0, 1, 2), says="[10, 128]"), Side(ranks=(3,), says="[100, 128]")),
)  # fmt: skip

SICK = (
    Sick(
        evidence=checkpoints(values=(ONE, differing("0.bias", Side(ranks=(0, 2, 3)), Side(ranks=(1,))))),
        says="0.weight[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, a difference of 0.0004; "
        "2 of 18 model tensors differ",
        ranks=(1,),
        measured={
            "tensor": "0.weight",
            "index": [5, 2],
            "kind": "value",
            "extent": "1 of 128 elements",
            "difference": 0.0004,
            "values": {"0,2,3": "0.0131", "1": "0.0127"},
            "tensors": ["0.weight", "0.bias"],
        },
    ),
    Sick(
        evidence=checkpoints(values=(RATE,)),
        says="optimizer.param_groups[0].lr is 0.1 on ranks 0-1 and 0.05 on ranks 2-3; "
        "no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        measured={
            "tensor": "optimizer.param_groups[0].lr",
            "index": None,
            "kind": "value",
            "extent": "",
            "difference": None,
            "values": {"0,1": "0.1", "2,3": "0.05"},
            "tensors": ["optimizer.param_groups[0].lr"],
        },
    ),
    Sick(
        evidence=checkpoints(values=(MEAN,)),
        says="1.running_mean differs between rank 0, rank 1, rank 2 and rank 3; no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        severity=Severity.INFO,
        measured={
            "tensor": "1.running_mean",
            "index": None,
            "kind": "value",
            "extent": "",
            "difference": None,
            "values": {"0": "", "1": "", "2": "", "3": ""},
            "tensors": ["1.running_mean"],
        },
    ),
    Sick(
        evidence=checkpoints(structure=(OTHER_MODEL,)),
        says="parameter fc.weight has shape [10, 128] on ranks 0-2 and [100, 128] on rank 3",
        ranks=(3,),
        measured={"tensor": "fc.weight", "aspect": "shape", "tensors": ["fc.weight"]},
    ),
)
HEALTHY = (checkpoints(), checkpoints(within=3, tolerance=1e-6, largest=2e-7))

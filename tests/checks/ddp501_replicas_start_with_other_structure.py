"""Models that differ in kind."""

from __future__ import annotations

from ddpdoctor.evidence.replicas import Replicas, Side, StructureDifference, ValueDifference
from tests.checks import Sick, job


def replicas(stepped: bool = False, **found):
    return job(Replicas(ranks=(0, 1, 2, 3), tensors=18, bytes=72, method="xxh3", stepped=stepped, **found))


ORDER = StructureDifference(
    role="parameter",
    name="a.weight",
    aspect="order",
    sides=(Side(ranks=(0, 2, 3), says="a.weight at position 0"), Side(ranks=(1,), says="b.weight at position 0")),
)
FROZEN = StructureDifference(
    role="parameter",
    name="a.weight",
    aspect="requires_grad",
    sides=(Side(ranks=(0, 1), says="True"), Side(ranks=(2, 3), says="False")),
)
SWAPPED = ValueDifference(role="parameter", name="a.weight", sides=(Side(ranks=(0, 2, 3)), Side(ranks=(1,))))

SICK = (
    Sick(
        evidence=replicas(structure=(ORDER,), values=(SWAPPED,)),
        says="parameters are registered in a different order: a.weight at position 0 on ranks 0,2-3 and b.weight at "
        "position 0 on rank 1",
        ranks=(1,),
        also=("DDP502",),
        measured={"tensor": "a.weight", "aspect": "order", "tensors": ["a.weight"]},
    ),
    Sick(
        evidence=replicas(structure=(FROZEN, FROZEN)),
        says="parameter a.weight has requires_grad True on ranks 0-1 and False on ranks 2-3; 2 tensors differ in structure; "
        "no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        measured={"tensor": "a.weight", "aspect": "requires_grad", "tensors": ["a.weight", "a.weight"]},
    ),
)
HEALTHY = (replicas(),)

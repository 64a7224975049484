"""Buffers that are not the same on all ranks."""

from __future__ import annotations

from ddpdoctor.evidence.replicas import Element, Replicas, Side, ValueDifference
from tests.checks import Sick, job


def replicas(stepped: bool = True, **found):
    return job(Replicas(ranks=(0, 1, 2, 3), tensors=18, bytes=72, method="xxh3", stepped=stepped, **found))


def differing(name: str, *sides: Side, **more) -> ValueDifference:
    return ValueDifference(role="buffer", name=name, sides=sides, **more)


ONE = differing(
    "bn.running_mean",
    Side(ranks=(0, 2, 3), says="0.0131"),
    Side(ranks=(1,), says="0.0127"),
    element=Element(index=(5, 2), values=("0.0131", "0.0127"), difference=0.0004),
    extent="1 of 128 elements",
)
ANOTHER = differing("bn.running_var", Side(ranks=(0, 2, 3)), Side(ranks=(1,)))
ZERO = differing(
    "bn.running_mean",
    Side(ranks=(0, 1), says="0"),
    Side(ranks=(2, 3), says="-0"),
    element=Element(index=(5, 2), values=("0", "-0"), difference=0.0),
    kind="sign of zero",
)

SICK = (
    Sick(
        evidence=replicas(values=(ONE, ANOTHER), in_forward=True, step=3, steps=40),
        says="at step 3 of 40: bn.running_mean[5, 2] is 0.0131 on ranks 0,2-3 and 0.0127 on rank 1, "
        "a difference of 0.0004; 2 buffers differ",
        ranks=(1,),
    ),
    Sick(
        evidence=replicas(values=(ZERO,)),
        says="bn.running_mean[5, 2] is 0 on ranks 0-1 and -0 on ranks 2-3: only the sign of zero differs; "
        "it cannot be told which side is right",
        ranks=(0, 1, 2, 3),
    ),
)
HEALTHY = (replicas(),)

"""A second module that nobody wrapped."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(Divergence(phase="outside", step=0, ranks=(0, 1), tensors=("head.weight",), total=10)),
        says="from step 0 of 40 on, 1 of 10 parameters (head.weight) of the optimizer are in no wrapped module, "
        "and their gradients differ between ranks",
        ranks=(0, 1),
    ),
)
HEALTHY = (found(),)

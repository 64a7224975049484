"""Weights reloaded on one rank."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(Divergence(phase="weights written", step=5, ranks=(0,), tensors=("a",), total=8)),
        says="before step 5 of 40, rank 0 wrote 1 of 8 parameters (a) outside the optimizer",
        ranks=(0,),
    ),
)
HEALTHY = (found(),)

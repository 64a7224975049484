"""Ranks whose random generators are in step."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.data import DrawnFor, SameDraws
from tests.checks import Sick
from tests.checks.divergent import found


def drawn(drawn_for: DrawnFor, generator: str) -> SameDraws:
    return SameDraws(step=1, ranks=(0, 1, 2, 3), generator=generator, drawn_for=drawn_for, steps=38)


SICK = (
    Sick(
        evidence=found(drawn(DrawnFor.DATA, "numpy.random")),
        says="in 38 steps, the generator numpy.random was in the same state on all ranks when they drew from it between "
        "two steps (data loading)",
        ranks=(0, 1, 2, 3),
        measured={"step": 1, "tensors": ["numpy.random"], "cause": "data", "steps": 38},
    ),
    Sick(
        evidence=found(drawn(DrawnFor.MODEL, "torch")),
        says="in 38 steps, the generator torch was in the same state on all ranks when they drew from it between the forward "
        "and the end of the step",
        ranks=(0, 1, 2, 3),
        measured={"step": 1, "tensors": ["torch"], "cause": "model", "steps": 38},
    ),
)
HEALTHY = (found(),)

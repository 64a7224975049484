"""No sampler gives the ranks parts of their own."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.data import SameInputs, SameSamples
from tests.checks import Sick
from tests.checks.divergent import found


def shared(*groups: tuple[int, ...]) -> SameInputs:
    ranks = tuple(sorted(rank for group in groups for rank in group))
    return SameInputs(step=0, ranks=ranks, steps=40, groups=groups)


SICK = (
    Sick(
        evidence=found(SameSamples(step=0, ranks=(0, 1, 2, 3), epoch=0, drawn=4096, unique=1024)),
        says="in epoch 0, all 4 ranks draw the same 1024 samples in the same order",
        ranks=(0, 1, 2, 3),
        measured={
            "step": 0,
            "tensors": [],
            "cause": "indices",
            "epoch": 0,
            "drawn": 4096,
            "unique": 1024,
            "repeats": 3072,
        },
    ),
    Sick(
        evidence=found(shared((0, 1, 2, 3))),
        says="the model gets the same input on all 4 ranks, in 40 of 40 compared steps",
        ranks=(0, 1, 2, 3),
        measured={"step": 0, "tensors": [], "cause": "inputs", "steps": 40},
    ),
    Sick(  # rank 0 drew more than the others, in an evaluation of its own
        evidence=found(shared((1, 2, 3))),
        says="the model gets the same input on ranks 1-3, in 40 of 40 compared steps",
        ranks=(1, 2, 3),
        measured={"step": 0, "tensors": [], "cause": "inputs", "steps": 40},
    ),
    Sick(  # a seed by the local rank
        evidence=found(shared((0, 2), (1, 3))),
        says="the model gets the same input on all ranks of each of 2 groups (ranks 0,2; ranks 1,3), in 40 of 40 compared steps",
        ranks=(0, 1, 2, 3),
        measured={"step": 0, "tensors": [], "cause": "inputs", "steps": 40},
    ),
)
HEALTHY = (found(),)

"""A sampler with another seed on one rank."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergence import SamplesOverlap
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(SamplesOverlap(step=0, ranks=(0, 1), epoch=0, drawn=104, unique=80, missing=23, length=103)),
        says="in epoch 0, 104 draws covered 80 of 103 samples: 24 draws were repeats and 23 samples were never drawn",
        ranks=(0, 1),
        measured={
            "step": 0,
            "tensors": [],
            "cause": "",
            "epoch": 0,
            "drawn": 104,
            "unique": 80,
            "repeats": 24,
            "missing": 23,
            "length": 103,
        },
    ),
    Sick(
        evidence=found(
            SamplesOverlap(
                step=0, ranks=(0, 1), epoch=0, drawn=104, unique=52, missing=51, length=103, without_them=True
            )
        ),
        says="in epoch 0, 104 draws covered 52 of 103 samples: 52 draws were repeats and 51 samples were never drawn; "
        "without ranks 0-1 the shards would not overlap",
        ranks=(0, 1),
        measured={
            "step": 0,
            "tensors": [],
            "cause": "strangers",
            "epoch": 0,
            "drawn": 104,
            "unique": 52,
            "repeats": 52,
            "missing": 51,
            "length": 103,
        },
    ),
)
HEALTHY = (found(),)

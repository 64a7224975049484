"""Every rank keeps its own accuracy."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.data import PartialMetric
from ddpdoctor.evidence.replicas import Side
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            PartialMetric(
                step=6, ranks=(0, 1), sides=(Side(ranks=(0,), says="500 samples"), Side(ranks=(1,), says="500 samples"))
            )
        ),
        says="before step 6, the ranks evaluate different samples (500 samples on rank 0 and 500 samples on rank 1) "
        "and call no collective before training continues",
        ranks=(0, 1),
        measured={"step": 6, "tensors": [], "cause": ""},
    ),
)
HEALTHY = (found(),)

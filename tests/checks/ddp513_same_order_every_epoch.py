"""set_epoch is missing."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.data import SameOrder
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(SameOrder(step=0, ranks=(0, 1), epoch=1, before=0, sampler="")),
        says="epoch 1 repeats the shuffled order of epoch 0 on all ranks",
        ranks=(0, 1),
        measured={"step": 0, "tensors": [], "cause": "", "epoch": 1, "before": 0},
    ),
)
HEALTHY = (found(),)

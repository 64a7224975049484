"""A rank with smaller batches."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.data import UnevenBatches
from ddpdoctor.evidence.replicas import Side
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            UnevenBatches(
                step=0,
                ranks=(2,),
                sides=(Side(ranks=(0, 1, 3), says="8"), Side(ranks=(2,), says="4")),
                steps=40,
                last=2,
                audited=40,
            )
        ),
        says="at step 0 of 40, the batch size is 8 on ranks 0-1,3 and 4 on rank 2; batch sizes differ in 40 of 40 compared steps",
        ranks=(2,),
        measured={"step": 0, "tensors": [], "cause": "", "steps": 40, "last": 2, "audited": 40},
    ),
)
HEALTHY = (found(),)

"""A learning rate of one rank's own."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergence import SettingsDiffer
from ddpdoctor.evidence.replicas import Side
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            SettingsDiffer(
                step=5,
                ranks=(2,),
                sides=(Side(ranks=(0, 1, 3), says="0.1"), Side(ranks=(2,), says="0.01")),
                names=("lr",),
            )
        ),
        says="at step 5 of 40, lr is 0.1 on ranks 0-1,3 and 0.01 on rank 2",
        ranks=(2,),
        measured={"step": 5, "tensors": ["lr"], "cause": ""},
    ),
)
HEALTHY = (found(),)

"""One rank's forward gives other numbers: with other settings, or when it is repeated."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.results import LossComputedDifferently
from tests.checks import Sick
from tests.checks.divergent import found

SICK = (
    Sick(
        evidence=found(
            LossComputedDifferently(
                step=5,
                ranks=(2,),
                module="layers.3 (Linear)",
                modules=9,
                settings=("threads: 1 on ranks 0, 1, 3, 8 on rank 2",),
            )
        ),
        says="before step 5 of 40, rank 2 computed other outputs for the probe batch, first in the output of layers.3 (Linear), "
        "one of 9 modules; settings that differ: threads: 1 on ranks 0, 1, 3, 8 on rank 2",
        ranks=(2,),
        measured={"step": 5, "tensors": ["layers.3 (Linear)"], "cause": "settings"},
    ),
    Sick(
        evidence=found(
            LossComputedDifferently(step=5, ranks=(0, 1), tied=True, module="head (Linear)", modules=9, unstable=(1,))
        ),
        says="before step 5 of 40, ranks 0-1 computed other outputs for the probe batch, first in the output of head (Linear), "
        "one of 9 modules; rank 1 computed something else when the forward was repeated; no majority: either side may be at "
        "fault",
        ranks=(0, 1),
        measured={"step": 5, "tensors": ["head (Linear)"], "cause": ""},
    ),
)
HEALTHY = (found(),)

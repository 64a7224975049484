"""A copy of the model that some ranks do not update."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergences.results import CopyUsed, UnwrappedDiffers
from ddpdoctor.model import Severity
from tests.checks import Sick
from tests.checks.divergent import found

BESIDE = "ema (Net), which is under no DistributedDataParallel, differs between ranks"
MEASURED = {"step": 6, "tensors": ["ema"]}

SICK = (
    Sick(
        evidence=found(
            UnwrappedDiffers(
                step=6, ranks=(0,), name="ema", kind="Net", moved=(0,), still=(1, 2, 3),
                used=CopyUsed.DIFFERENT, used_on=(0, 1, 2, 3),
            )
        ),
        says=f"at step 6 of 40, {BESIDE}: rank 0 updated it since it was equal on all ranks, ranks 1-3 did not; "
        "ranks 0-3 call it",
        ranks=(0,),
        measured={**MEASURED, "cause": "different"},
    ),
    Sick(
        evidence=found(
            UnwrappedDiffers(
                step=6, ranks=(0,), name="ema", kind="Net", moved=(1, 2, 3), still=(0,),
                used=CopyUsed.STALE, used_on=(0,), at_end=True,
            )
        ),
        says=f"at the end of 40 steps, {BESIDE}: ranks 1-3 updated it since it was equal on all ranks, rank 0 did not; "
        "rank 0 calls a copy that is not updated",
        ranks=(0,),
        measured={**MEASURED, "cause": "stale"},
    ),
    Sick(
        evidence=found(
            UnwrappedDiffers(
                step=6, ranks=(0, 1, 2, 3), tied=True, name="ema", kind="Net", moved=(0, 1, 2, 3), still=(),
                used=CopyUsed.UNKNOWN,
            )
        ),
        says=f"at step 6 of 40, {BESIDE}: all ranks updated it since it was equal; no majority: either side may be at fault",
        ranks=(0, 1, 2, 3),
        severity=Severity.INFO,
        measured={**MEASURED, "cause": ""},
    ),
)  # fmt: skip
HEALTHY = (found(),)

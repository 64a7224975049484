"""Gradients that stay on their rank."""

from __future__ import annotations

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.gradients import GradientsNotReduced, NotReducedCause
from ddpdoctor.evidence.source import Request, SourceCode
from tests.checks import Sick, job
from tests.checks.divergent import found

SWITCH = SourceCode(
    places=(),
    requests=(
        Request(file="train.py", line=9, function="main", text="trainer.should_stop = True", wants="stop"),
        Request(file="train.py", line=7, function="main", text="model.no_sync()", wants="accumulate"),
    ),
)
UNDER_NO_SYNC = GradientsNotReduced(step=0, ranks=(0, 1), tensors=("a",), total=1, cause=NotReducedCause.NO_SYNC)

SICK = (
    Sick(  # the line that switches the reduction off is not that of the forward
        evidence=job(Divergences(steps=40, world_size=4, found=(UNDER_NO_SYNC,)), SWITCH),
        says="from step 0 of 40 on, 1 of 1 parameters (a) keep their local gradients on ranks 0-1: the forward ran "
        "under no_sync, or with require_backward_grad_sync off, so the backward did not reduce",
        ranks=(0, 1),
        where=("train.py:7 main",),
        measured={"step": 0, "tensors": ["a"], "cause": "no_sync"},
    ),
    Sick(
        evidence=found(
            GradientsNotReduced(
                step=3, ranks=(0, 1, 2, 3), tensors=("a", "b", "c", "d"), total=18, cause=NotReducedCause.ADDED
            )
        ),
        says="from step 3 of 40 on, 4 of 18 parameters (a, b, c, ...) keep their local gradients: "
        "they were added to the model after it was wrapped",
        ranks=(0, 1, 2, 3),
        measured={"step": 3, "tensors": ["a", "b", "c", "d"], "cause": "added"},
    ),
    Sick(
        evidence=found(
            GradientsNotReduced(step=0, ranks=(0, 1), tensors=("a",), total=1, cause=NotReducedCause.BYPASSED)
        ),
        says="from step 0 of 40 on, 1 of 1 parameters (a) keep their local gradients on ranks 0-1: "
        "the model inside the wrapper was called, so DDP did not see the forward",
        ranks=(0, 1),
        measured={"step": 0, "tensors": ["a"], "cause": "bypassed"},
    ),
    Sick(
        evidence=found(
            GradientsNotReduced(step=80, ranks=(0, 1, 2, 3), tensors=("a",), total=1, cause=NotReducedCause.BY_HOOK),
            steps=130,
        ),
        says="from step 80 of 130 on, 1 of 1 parameters (a) have other gradients on some ranks: the communication hook averages "
        "them inside groups of ranks, and nothing averages them, or the weights, over all ranks",
        ranks=(0, 1, 2, 3),
        measured={"step": 80, "tensors": ["a"], "cause": "by hook"},
    ),
)
HEALTHY = (found(),)

"""A rank that skips a step."""

from __future__ import annotations

from ddpdoctor.evidence.divergence import Divergence, Divergences
from ddpdoctor.evidence.replicas import Side
from tests.checks import Sick, job


def found(*each: Divergence, steps: int = 40):
    return job(Divergences(steps=steps, audited=steps, world_size=4, found=each))


SICK = (
    Sick(
        evidence=found(
            Divergence(
                phase="step skipped",
                step=5,
                ranks=(2,),
                why="steps",
                sides=(Side(ranks=(0, 1, 3), says="6"), Side(ranks=(2,), says="5")),
            )
        ),
        says="rank 2 skipped step 5 of 40: by the same forward it has made 6 on ranks 0-1,3 and 5 on rank 2 steps",
        ranks=(2,),
    ),
    Sick(
        evidence=found(
            Divergence(
                phase="step skipped",
                step=5,
                ranks=(2,),
                why="position",
                sides=(Side(ranks=(0, 1, 3), says="(0, 6)"), Side(ranks=(2,), says="(0, 7)")),
            )
        ),
        says="rank 2 skipped step 5 of 40: by the same forward it stands at another batch "
        "(epoch, batches drawn): (0, 6) on ranks 0-1,3 and (0, 7) on rank 2",
        ranks=(2,),
    ),
    Sick(
        evidence=found(
            Divergence(
                phase="step skipped",
                step=5,
                ranks=(2,),
                why="found_inf",
                sides=(Side(ranks=(0, 1, 3), says="6"), Side(ranks=(2,), says="5")),
                numbers={"scale": 65536.0},
            )
        ),
        says="rank 2 skipped step 5 of 40: its GradScaler (scale 65536) found gradients that are not finite, its peers' did not",
        ranks=(2,),
    ),
)
HEALTHY = (found(),)

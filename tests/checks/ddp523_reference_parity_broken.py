"""A loss divided twice, a bit that differs after a resume, and ranks that agree with one process."""

from ddpdoctor.evidence.training import Gate, ParityRun
from tests.checks import Sick, job


def run(gradient: float | None, bits: float, signature: str | None = None) -> ParityRun:
    return ParityRun(
        world_size=4,
        backend="gloo",
        device="cpu",
        steps=300,
        gates=(
            Gate(name="plain: gradient of the first step", measured=gradient, allowed=1e-12),
            Gate(name="resumed, same bits", measured=bits, allowed=0.0),
        ),
        signature=signature,
    )


SICK = (
    Sick(
        evidence=job(run(0.75, 0, "divided-twice: the loss is divided by the number of ranks, which DDP does as well")),
        says="4 gloo ranks diverge from the single-process run: plain: gradient of the first step: 7.5e-01 (allowed: 1e-12)",
        ranks=(0, 1, 2, 3),
        measured={"failed": {"plain: gradient of the first step": 0.75}},
    ),
    Sick(
        evidence=job(run(None, 4)),
        says="4 gloo ranks diverge from the single-process run: plain: gradient of the first step: not a finite number "
        "(allowed: 1e-12), and 1 more of 2 comparisons fail",
        ranks=(0, 1, 2, 3),
        measured={"failed": {"plain: gradient of the first step": None, "resumed, same bits": 4}},
    ),
    Sick(
        evidence=job(run(2e-16, 4)),
        says="4 gloo ranks diverge from the single-process run: resumed, same bits: 4 ranks differ",
        ranks=(0, 1, 2, 3),
        measured={"failed": {"resumed, same bits": 4}},
    ),
)
HEALTHY = (job(run(2.3e-16, 0)), job(run(1e-12, 0)))

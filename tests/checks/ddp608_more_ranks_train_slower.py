"""Four ranks that get less done than one, and machines on which that is not so or cannot be said."""

from dataclasses import replace

from ddpdoctor.evidence.training import ScalingPoint, ScalingRun
from tests.checks import Sick, job


def measured(*weak: float, cores: int = 8, device: str = "cpu") -> ScalingRun:
    """1, 2, 4 ... ranks with these samples per second."""
    return ScalingRun(
        model="digitnet",
        backend="gloo",
        device=device,
        cores=cores,
        points=tuple(
            ScalingPoint(ranks=2**place, weak=speed, strong=speed, overlap=None) for place, speed in enumerate(weak)
        ),
        cores_of_others=0.3,
    )


SICK = (
    Sick(
        evidence=job(measured(5000, 7000, 4400)),
        says="4 ranks of digitnet over gloo train 4,400 samples/s together; one rank alone trains 5,000 samples/s with "
        "the same batch size per rank",
        ranks=(0, 1, 2, 3),
        measured={"together": 4400, "alone": 5000, "cores_of_others": 0.3},
    ),
    Sick(
        evidence=job(replace(measured(5000, 1200, cores=4, device="NVIDIA H200"), backend="nccl")),
        says="2 ranks of digitnet over nccl train 1,200 samples/s together; one rank alone trains 5,000 samples/s with "
        "the same batch size per rank",
        ranks=(0, 1),
        measured={"together": 1200, "alone": 5000, "cores_of_others": 0.3},
    ),
)
HEALTHY = (
    job(measured(5000, 9100, 16000)),
    job(measured(5000, 5100)),
    job(replace(measured(5000, 4700), cores_of_others=0.4)),  # 0.4 of 8 cores were not ours
)

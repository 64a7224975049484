"""Replicas that came apart: one rank of three, and one of two, where nobody can tell which."""

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import Epoch, TrainingRun
from tests.checks import Sick, job


def run(*weights: str) -> Evidence:
    return job(
        TrainingRun(
            dataset="digits",
            model="digitnet",
            world_size=len(weights),
            backend="gloo",
            device="cpu",
            epochs=(Epoch(epoch=1, accuracy=0.95, test_loss=0.1, seconds=2.0),),
            batch_size=64,
            seed=1,
            accuracy=0.95,
            test_loss=0.1,
            test_samples=1000,
            samples_per_second=6000.0,
            seconds=2.0,
            weights=weights,
        )
    )


SICK = (
    Sick(
        evidence=run("aa", "aa", "bb"),
        says="the final weights have 2 digests: aa on ranks 0-1, bb on rank 2",
        ranks=(2,),
    ),
    Sick(
        evidence=run("aa", "bb"),
        says="the final weights have 2 digests: aa on rank 0, bb on rank 1; no majority: either side may be at fault",
        ranks=(0, 1),
    ),
)
HEALTHY = (run("aa", "aa"),)

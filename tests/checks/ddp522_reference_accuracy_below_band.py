"""A job that learned half of what it should, and one inside its band."""

from dataclasses import replace

from ddpdoctor.evidence.training import Epoch, TrainingRun
from tests.checks import Sick, job

GOOD = TrainingRun(
    dataset="digits",
    model="digitnet",
    world_size=2,
    backend="gloo",
    device="cpu",
    epochs=tuple(Epoch(epoch=epoch, accuracy=0.97, test_loss=0.1, seconds=2.0 * epoch) for epoch in (1, 2, 3)),
    batch_size=64,
    seed=1,
    accuracy=0.974,
    test_loss=0.08,
    test_samples=1000,
    samples_per_second=6000.0,
    seconds=6.0,
    weights=("aa", "aa"),
)

SICK = (
    Sick(
        evidence=job(replace(GOOD, accuracy=0.481)),
        says="digitnet on digits reaches 48.1% on 1000 test samples with 2 ranks; the expected minimum is 96.2%",
        ranks=(0, 1),
        measured={"accuracy": 0.481, "least": 0.96174},
    ),
)
HEALTHY = (job(GOOD), job(replace(GOOD, accuracy=0.962)))

"""What the known-good job of `ddpdoctor train` did."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One epoch; `accuracy` is a share of the test set, `seconds` since training began, `test_loss` None if not finite."""

    epoch: int
    accuracy: float
    test_loss: float | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A training job that came to its end.

    `dataset` is `digits` for the embedded subset of MNIST. `batch_size` counts samples a step over all ranks. `weights` is
    a digest of the final weights on each rank, in order of rank.
    """

    dataset: str
    model: str
    world_size: int
    backend: str
    device: str
    epochs: tuple[Epoch, ...]
    batch_size: int
    seed: int
    accuracy: float
    test_loss: float | None
    test_samples: int
    samples_per_second: float
    seconds: float
    weights: tuple[str, ...]


KINDS = (TrainingRun,)

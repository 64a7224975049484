"""What the reference job reaches in one process, seed by seed, and so the least that N ranks must reach.

Measured with `python -m tests.reference_train.accuracy`, one thread per process: torch 2.13.0 on x86-64 CPUs, batch 64, all other
options as they are by default. CIFAR-10 is 10,000 + 2,000 images of it that were decoded from JPEG copies.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass

DEVIATIONS = 3  # a right job falls below the band once in seven hundred runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Band:
    """The test accuracies that one process reaches."""

    program: str
    """The file in reference_train."""
    dataset: str
    """The data set."""
    model: str
    """A value of `--model`."""
    epochs: int
    """The number of epochs."""
    test_samples: int
    """The size of the test set."""
    accuracies: tuple[float, ...]
    """The accuracies with the seeds 1, 2, 3 and so on."""

    @property
    def least(self) -> float:
        """The mean less three standard deviations: of the seeds, or of a share of that many samples if that is larger."""
        mean = statistics.fmean(self.accuracies)
        of_the_samples = math.sqrt(mean * (1 - mean) / self.test_samples)
        return mean - DEVIATIONS * max(statistics.stdev(self.accuracies), of_the_samples)


BANDS = (
    Band(
        program="train.py", dataset="digits", model="digitnet", epochs=1, test_samples=1000,
        accuracies=(0.960, 0.950, 0.952, 0.956, 0.952),
    ),
    Band(
        program="recipe.py", dataset="digits", model="digitnet", epochs=1, test_samples=1000,
        accuracies=(0.951, 0.909, 0.926, 0.924, 0.933),
    ),
    Band(
        program="train.py", dataset="digits", model="digitnet", epochs=3, test_samples=1000,
        accuracies=(0.980, 0.976, 0.981, 0.975, 0.983),
    ),
    Band(
        program="recipe.py", dataset="digits", model="digitnet", epochs=3, test_samples=1000,
        accuracies=(0.977, 0.975, 0.978, 0.976, 0.975),
    ),
    Band(
        program="train.py", dataset="mnist", model="digitnet", epochs=3, test_samples=10_000,
        accuracies=(0.9928, 0.9921, 0.9929, 0.9926, 0.9923),
    ),
    Band(
        program="recipe.py", dataset="mnist", model="digitnet", epochs=3, test_samples=10_000,
        accuracies=(0.9922, 0.9931, 0.9923, 0.9929, 0.9928),
    ),
    Band(
        program="recipe.py", dataset="cifar10 (12,000 of it)", model="resnet9", epochs=4, test_samples=2000,
        accuracies=(0.630, 0.629, 0.631, 0.643, 0.646),
    ),
)  # fmt: skip


def least_accuracy(dataset: str, model: str, epochs: int) -> float | None:
    """The least accuracy that N ranks must reach, whichever program they ran; None where nobody measured it."""
    same = (band.least for band in BANDS if (band.dataset, band.model, band.epochs) == (dataset, model, epochs))
    return min(same, default=None)

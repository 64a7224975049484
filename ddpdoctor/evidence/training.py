"""What the known-good job of `ddpdoctor train` did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One epoch; `accuracy` is a share of the test set, `seconds` of training until then, `test_loss` None if not finite."""

    epoch: int
    accuracy: float
    test_loss: float | None
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A training job that came to its end; `complete` is False where that was set before the last epoch, by `--max-steps`.

    `dataset` is `digits` for the embedded subset of MNIST. `batch_size` counts samples a step over all ranks. `weights` is
    a digest of the final weights on each rank, in order of rank. `phases` are rank 0's seconds by phase of a step, `overlap`
    the share of communication that DDP hid behind the backward; None or empty where they were not measured.
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
    complete: bool = True
    phases: Mapping[str, float] = field(default_factory=dict)
    overlap: float | None = None
    gpu_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One comparison of N ranks with one process: `measured` may be at most `allowed`; None where it is not finite."""

    name: str
    measured: float | None
    allowed: float

    @property
    def passed(self) -> bool:
        """Whether it is within what is allowed."""
        return self.measured is not None and self.measured <= self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityRun:
    """What came out of comparing N ranks with one process, gate by gate.

    `signature` names the mistake whose gradient is the one that was found, or describes that gradient; None if all is right.
    """

    world_size: int
    backend: str
    device: str
    steps: int
    gates: tuple[Gate, ...]
    signature: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Throughput in samples per second on some ranks.

    `weak` keeps the batch of each rank, `strong` the batch of all ranks together. `overlap` is the share of communication
    that was hidden behind the backward in the weak run.
    """

    ranks: int
    weak: float
    strong: float
    overlap: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRun:
    """Throughput by number of ranks, one rank first, on a host with this many usable cores.

    `cores_of_others` is how many of them other programs used meanwhile, on the average.
    """

    model: str
    backend: str
    device: str
    cores: int
    points: tuple[ScalingPoint, ...]
    cores_of_others: float


KINDS = (TrainingRun, ParityRun, ScalingRun)

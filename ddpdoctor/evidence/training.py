"""What the reference job of `ddpdoctor train` did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.evidence.bounds import need, need_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Epoch:
    """One epoch of the reference job."""

    epoch: int
    """Its number."""
    accuracy: float
    """The share of the test set that is classified correctly after it."""
    test_loss: float | None
    """The loss over the test set; None where it is not finite."""
    seconds: float
    """Seconds of training until its end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """A run of the reference job."""

    dataset: str
    """`digits` for the embedded subset of MNIST."""
    model: str
    """The name of the model."""
    world_size: int
    """The number of ranks."""
    backend: str
    """`nccl` or `gloo`."""
    device: str
    """`cpu` or the name of the GPU."""
    epochs: tuple[Epoch, ...]
    """One per epoch that was trained, in order."""
    batch_size: int
    """Samples per step over all ranks."""
    seed: int
    """The seed of weights and data order."""
    accuracy: float
    """The share of the test set that is classified correctly at the end."""
    test_loss: float | None
    """The loss over the test set; None where it is not finite."""
    test_samples: int
    """The size of the test set."""
    samples_per_second: float
    """The throughput of training."""
    seconds: float
    """The time of training."""
    weights: tuple[str, ...]
    """A digest of the final weights on each rank, in order of rank."""
    complete: bool = True
    """False where `--max-steps` ended it before the last epoch."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """Rank 0's seconds by phase of a step; empty where they were not measured."""
    overlap: float | None = None
    """The share of communication that DDP hid behind the backward; None where it was not measured."""
    gpu_memory_bytes: int | None = None
    """The most GPU memory that a rank had allocated."""

    def __post_init__(self) -> None:
        need_ranks(self.world_size, "world_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """One comparison of N ranks with one process."""

    name: str
    """What is compared, in words for a table."""
    measured: float | None
    """The difference; None where it is not finite."""
    allowed: float
    """The largest difference that passes."""

    @property
    def passed(self) -> bool:
        """Whether it is within what is allowed."""
        return self.measured is not None and self.measured <= self.allowed


@dataclass(frozen=True, slots=True, kw_only=True)
class ParityRun:
    """The comparison of N ranks with one process."""

    world_size: int
    """The number of ranks."""
    backend: str
    """`nccl` or `gloo`."""
    device: str
    """`cpu` or the name of the GPU."""
    steps: int
    """The number of steps that were compared."""
    gates: tuple[Gate, ...]
    """The comparisons, in order."""
    signature: str | None
    """The mistake whose gradient is the one that was found, or a description of that gradient; None where all gates
    pass."""

    def __post_init__(self) -> None:
        need_ranks(self.world_size, "world_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingPoint:
    """Throughput in samples per second on some ranks."""

    ranks: int
    """The number of ranks."""
    weak: float
    """With the same batch on each rank."""
    strong: float
    """With the same batch over all ranks together."""
    overlap: float | None
    """The share of communication that was hidden behind the backward in the weak run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalingRun:
    """Throughput by number of ranks, on one host."""

    model: str
    """The name of the model."""
    backend: str
    """`nccl` or `gloo`."""
    device: str
    """`cpu` or the name of the GPU."""
    cores: int
    """The cores that the host offers."""
    points: tuple[ScalingPoint, ...]
    """One rank first."""
    cores_of_others: float
    """How many of the cores other programs used meanwhile, on average."""

    def __post_init__(self) -> None:
        need(bool(self.points), "a scaling run has no point")
        need(self.cores > 0, f"a scaling run used {self.cores} cores")
        for point in self.points:
            need_ranks(point.ranks, "ranks of a point")


KINDS = {
    TrainingRun: "run of the reference job",
    ParityRun: "parity run of the reference job",
    ScalingRun: "scaling run of the reference job",
}

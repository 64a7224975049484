"""What NVML says of the GPUs of one host. None stands for "could not be read"; `unread` holds NVML's reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that computes on a GPU."""

    pid: int
    """Its process id, as NVML knows it."""
    memory_bytes: int | None = None
    """The GPU memory that it uses."""
    command: str | None = None
    """Its command line; None where its pid means nothing in our pid namespace."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of memory that the GPU has replaced."""

    correctable: int
    """Rows replaced after correctable errors."""
    uncorrectable: int
    """Rows replaced after uncorrectable errors."""
    pending: bool
    """Whether a reset is due before a replacement takes effect."""
    failed: bool
    """Whether the GPU ran out of spare rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. None stands for "could not be read"."""

    index: int
    """NVML's number of it."""
    name: str | None = None
    """Such as `NVIDIA H100 80GB HBM3`."""
    uuid: str | None = None
    """The identity that CUDA_VISIBLE_DEVICES accepts."""
    pci_bus_id: str | None = None
    """The address on the PCI bus."""
    memory_bytes: int | None = None
    """The size of its memory."""
    memory_used_bytes: int | None = None
    """How much of it is used."""
    ecc_uncorrected: int | None = None
    """Uncorrectable memory errors since the driver was loaded."""
    remapped_rows: RemappedRows | None = None
    """The rows that it replaced."""
    recovery_action: int | None = None
    """NVML's number of the recovery action that is due, 0 for none."""
    clock_reasons: int | None = None
    """NVML's bit mask of what holds the clocks down."""
    temperature_celsius: int | None = None
    """The temperature of the GPU core."""
    nvlinks: tuple[bool, ...] | None = None
    """Whether each NVLink is active."""
    mig: bool | None = None
    """Whether MIG mode is on."""
    compute_mode: str | None = None
    """`default`, `exclusive-process` or `prohibited`."""
    persistence: bool | None = None
    """Whether persistence mode is on."""
    use_percent: int | None = None
    """In how much of the last second (or less, as the driver samples) a kernel ran on it."""
    processes: tuple[GpuProcess, ...] | None = None
    """The processes that compute on it."""
    unread: Mapping[str, str] = field(default_factory=dict)
    """NVML's reason for each field that could not be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The driver and every GPU that it shows to this process."""

    driver: str
    """The version of the driver."""
    cuda_driver: str | None = None
    """The newest version of CUDA that the driver supports."""
    gpus: tuple[Gpu, ...] = ()
    """In the order of NVML."""


KINDS = {Gpus: "GPU data"}

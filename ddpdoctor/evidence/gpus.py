"""What NVML says of the GPUs of one host. None stands for "could not be read"; `unread` holds NVML's reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuProcess:
    """A process that computes on a GPU. `command` is None where its pid means nothing in our pid namespace."""

    pid: int
    memory_bytes: int | None = None
    command: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemappedRows:
    """Rows of memory that the GPU has replaced, whether a reset is due, and whether it ran out of spare ones."""

    correctable: int
    uncorrectable: int
    pending: bool
    failed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """One GPU. `clock_reasons` is NVML's bit mask of what holds the clocks down; `nvlinks` the state of each link.

    `compute_mode` is `default`, `exclusive-process` or `prohibited`. `recovery_action` is NVML's number, 0 for none.
    """

    index: int
    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    memory_bytes: int | None = None
    memory_used_bytes: int | None = None
    ecc_uncorrected: int | None = None
    remapped_rows: RemappedRows | None = None
    recovery_action: int | None = None
    clock_reasons: int | None = None
    utilization_percent: int | None = None
    temperature_celsius: int | None = None
    nvlinks: tuple[bool, ...] | None = None
    mig: bool | None = None
    compute_mode: str | None = None
    persistence: bool | None = None
    processes: tuple[GpuProcess, ...] | None = None
    unread: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpus:
    """The driver and every GPU that it shows to this process. `cuda_driver` is the newest CUDA that the driver runs."""

    driver: str
    cuda_driver: str | None = None
    gpus: tuple[Gpu, ...] = ()


KINDS = (Gpus,)

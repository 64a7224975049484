"""The torch that the job would import, and the NCCL libraries that it would find."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """What `import torch` gives. `import_error` holds the error's own words where it fails; then the rest is None.

    `nccl_compiled` is the version that torch was built against, `nccl_loaded` what the library in the process answers.
    `cuda_devices` counts the GPUs that torch would use; `libcuda` and `libnccl` are the files loaded into the process.
    """

    import_error: str | None = None
    version: str | None = None
    git_version: str | None = None
    cuda: str | None = None
    hip: str | None = None
    cudnn: int | None = None
    distributed: bool | None = None
    backends: tuple[str, ...] = ()
    nccl_compiled: str | None = None
    nccl_loaded: str | None = None
    libnccl: tuple[str, ...] = ()
    libcuda: str | None = None
    cuda_devices: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLibrary:
    """One libnccl.so on this host, what it says its version is, and what makes it reachable."""

    path: str
    version: str | None
    via: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLibraries:
    """Every libnccl.so that a process started here could load; real files, each once."""

    found: tuple[NcclLibrary, ...] = ()


KINDS = (TorchBuild, NcclLibraries)

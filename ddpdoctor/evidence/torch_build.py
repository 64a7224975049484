"""The torch that the job would import, and the NCCL libraries that it would find."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchBuild:
    """What `import torch` gives. Where it fails, what it would tell is None."""

    import_error: str | None = None
    """The message of the exception."""
    not_installed_for: str | None = None
    """The Python that has no torch at all; None where it has one, be it broken."""
    version: str | None = None
    """Of torch, with its build such as `+cu128`; None where torch cannot be imported."""
    git_version: str | None = None
    """The commit that it was built from."""
    cuda: str | None = None
    """The version of CUDA that it was built for."""
    hip: str | None = None
    """The version of HIP that it was built for."""
    cudnn: int | None = None
    """The version of cuDNN as a number."""
    distributed: bool | None = None
    """Whether torch.distributed is available."""
    backends: tuple[str, ...] = ()
    """The backends of torch.distributed that it has."""
    nccl_compiled: str | None = None
    """The version of NCCL that it was built against."""
    nccl_loaded: str | None = None
    """The version that the library in the process reports."""
    libnccl: tuple[str, ...] = ()
    """The files of libnccl that are loaded into the process."""
    libcuda: str | None = None
    """The file of libcuda that is loaded into the process."""
    cuda_devices: int | None = None
    """The number of GPUs that torch would use."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLibrary:
    """One libnccl.so on this host."""

    path: str
    """The real file."""
    version: str | None
    """The version that it reports."""
    via: str
    """What makes it reachable, such as LD_LIBRARY_PATH."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLibraries:
    """Every libnccl.so that a process started here could load."""

    found: tuple[NcclLibrary, ...] = ()
    """Each file once."""


KINDS = {
    TorchBuild: "torch build",
    NcclLibraries: "NCCL libraries",
}

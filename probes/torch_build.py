"""Prints what `import torch` gives on this host, one JSON line per kind of evidence. Costs the import and no more.

It never initialises CUDA: GPUs are counted through NVML, as torch itself does before it touches the driver.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def main() -> None:
    """Print the build, then the build with the count of GPUs, which is what can hang, then the libraries."""
    try:
        importlib.import_module("torch")
    except Exception as error:  # noqa: BLE001 - whatever a broken installation raises is the answer
        absent = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        say(
            "TorchBuild",
            {
                "import_error": f"{type(error).__name__}: {error}",
                "not_installed_for": sys.executable if absent else None,
            },
        )
        say("NcclLibraries", {"found": list(nccl_libraries(()))})
        return
    import torch

    loaded = mapped(r"libnccl(-\S*)?\.so[.\d]*$")
    build = {**about(), "libnccl": loaded, "nccl_loaded": nccl_version(loaded[0]) if loaded else None}
    say("TorchBuild", build)
    say("NcclLibraries", {"found": list(nccl_libraries(loaded))})
    if torch.version.cuda is not None:
        devices = torch.cuda.device_count()
        libcuda = next(iter(mapped(r"libcuda\.so[.\d]*$")), None)
        say("TorchBuild", {**build, "cuda_devices": devices, "libcuda": libcuda})


def say(kind: str, fields: dict[str, Any]) -> None:
    """One line at once, so that what is known survives a hang of what comes after it."""
    print(json.dumps({kind: fields}), flush=True)


def about() -> dict[str, Any]:
    """The versions that torch was built with, and the backends it has."""
    import torch

    distributed = torch.distributed.is_available()
    backends = []
    if distributed:
        for name in ("gloo", "nccl", "mpi", "ucc", "xccl"):
            available = getattr(torch.distributed, f"is_{name}_available", None)
            if available is not None and available():
                backends.append(name)
    return {
        "version": str(torch.__version__),
        "git_version": torch.version.git_version,
        "cuda": torch.version.cuda,
        "hip": torch.version.hip,
        "cudnn": torch.backends.cudnn.version() if torch.version.cuda else None,
        "distributed": distributed,
        "backends": backends,
        "nccl_compiled": ".".join(map(str, torch.cuda.nccl.version()[:3])) if "nccl" in backends else None,
    }


def mapped(pattern: str) -> list[str]:
    """The shared libraries in this process whose path matches, real files, each once."""
    lines = Path("/proc/self/maps").read_text(errors="replace").splitlines()
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count("/") and len(line.split(maxsplit=5)) == 6)
    return list(dict.fromkeys(os.path.realpath(path) for path in paths if re.search(pattern, path)))


def nccl_libraries(loaded: tuple[str, ...] | list[str]) -> Iterator[dict[str, Any]]:
    """Each libnccl.so that a process could load: the loaded one, LD_PRELOAD's, LD_LIBRARY_PATH's, the linker's, pip's."""
    seen = set()
    for via, path in (
        *(("loaded by torch", path) for path in loaded),
        *(("LD_PRELOAD", path) for path in re.split(r"[:\s]+", os.environ.get("LD_PRELOAD", "")) if "libnccl" in path),
        *(("LD_LIBRARY_PATH", path) for folder in library_path() for path in libraries_in(folder)),
        *(("ldconfig", path) for path in linker_cache()),
        *(("site-packages", path) for folder in site_packages() for path in libraries_in(folder)),
    ):
        real = os.path.realpath(path)
        if real not in seen and Path(real).is_file():
            seen.add(real)
            yield {"path": real, "version": nccl_version(real), "via": via}


def library_path() -> list[str]:
    """The folders of LD_LIBRARY_PATH."""
    return [folder for folder in os.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]


def site_packages() -> list[str]:
    """The folders of pip's NCCL wheels, for every CUDA version."""
    import site

    folders = [*site.getsitepackages(), site.getusersitepackages()]
    return [str(path) for folder in folders for path in Path(folder).glob("nvidia/nccl*/lib")]


def libraries_in(folder: str) -> list[str]:
    """The libnccl.so files in a folder; profilers' and plugins' libnccl-*.so are not NCCL."""
    return [str(path) for path in sorted(Path(folder).glob("libnccl.so*"))]


def linker_cache() -> list[str]:
    """What `ldconfig -p` knows of libnccl.so."""
    for command in ("ldconfig", "/sbin/ldconfig"):
        try:
            said = subprocess.run([command, "-p"], capture_output=True, text=True, timeout=5, check=False).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        return re.findall(r"libnccl\.so\S* .*=> (\S+)", said)
    return []


def nccl_version(path: str) -> str | None:
    """What the library's own `ncclGetVersion` answers: 2.27.3 for 22703."""
    number = ctypes.c_int()
    try:
        if ctypes.CDLL(path).ncclGetVersion(ctypes.byref(number)) != 0:
            return None
    except (OSError, AttributeError):
        return None
    code = number.value
    if code < 10000:  # until 2.8 a version was major * 1000 + minor * 100 + patch
        return f"{code // 1000}.{code % 1000 // 100}.{code % 100}"
    return f"{code // 10000}.{code % 10000 // 100}.{code % 100}"


if __name__ == "__main__":
    main()

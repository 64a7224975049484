"""The Python of this machine whose torch sees a GPU, and what it lacks to run ddpdoctor."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
WHEELS = ROOT / ".wheels"
PACKAGES = ROOT / ".gpu-packages"
LOOK_SECONDS = 180.0  # the first import of torch from a cold disk
INSTALL_SECONDS = 300.0
IN_TORCH = {"torch"}  # the machine's own: what would be installed beside it may know no CUDA
LOOK = """
import importlib.metadata, json, sys
found = {"cuda": False, "lacks": []}
for name in sys.argv[1:]:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found["lacks"].append(name)
try:
    import torch
    found["torch"] = torch.__version__
    found["built_for"] = torch.version.cuda
    found["cuda"] = torch.cuda.is_available()
    if found["cuda"]:
        found["gpus"] = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
        found["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
except Exception as error:
    found["error"] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@dataclass(frozen=True, kw_only=True)
class Machine:
    """A Python that can use GPUs. `lacks` names the packages of ddpdoctor that it has not installed."""

    python: str
    gpus: Sequence[str]
    torch: str
    nccl: str
    lacks: Sequence[str] = ()

    @property
    def environment(self) -> Mapping[str, str]:
        """What every part needs: this checkout, and the packages that were added for it."""
        added = [str(ROOT), *([str(PACKAGES)] if PACKAGES.is_dir() else [])]
        path = os.pathsep.join([*added, *filter(None, [os.environ.get("PYTHONPATH")])])
        return {"PYTHONPATH": path, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "4")}


@dataclass(frozen=True)
class NoGpu:
    """Why no part can run."""

    reason: str


def needed() -> dict[str, str]:
    """The packages that ddpdoctor needs besides torch, by name, with their versions."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    block = re.search(r"^dependencies = \[(.*?)^\]", text, re.MULTILINE | re.DOTALL)
    assert block is not None
    wanted = [one.partition(";")[0].strip() for one in re.findall(r'"([^"]+)"', block[1])]
    named = {re.split(r"[<>=!~\[ ]", one, maxsplit=1)[0]: one for one in wanted}
    return {name: one for name, one in named.items() if name not in IN_TORCH}


def find(wanted: str | None = None) -> Machine | NoGpu:
    """The first Python whose torch sees a GPU: the one `wanted`, this one, the machine's own."""
    if wanted is None and not _has_driver():
        return NoGpu("no NVIDIA GPU (neither /dev/nvidiactl nor nvidia-smi is there)")
    seen = []
    for python in dict.fromkeys([wanted] if wanted else _pythons()):
        found = _look(python)
        if found.get("cuda"):
            return Machine(
                python=python, gpus=found["gpus"], torch=found["torch"], nccl=found["nccl"], lacks=found["lacks"]
            )
        seen.append(f"{python}: {_why_not(found)}")
    return NoGpu("no Python whose torch sees a GPU: " + "; ".join(seen))


def install(machine: Machine) -> str | None:
    """Install what the Python of this machine lacks beside it, without a change to it; returns what went wrong.

    Where the folder .wheels is there, from it alone: a machine without a network has the packages carried along.
    """
    lacks = [name for name in machine.lacks if not _is_in(PACKAGES, name)]
    if not lacks:
        return None
    source = ["--no-index", "--find-links", str(WHEELS)] if WHEELS.is_dir() else []
    command = [machine.python, "-m", "pip", "install", "--quiet", "--target", str(PACKAGES), *source]
    try:
        ended = subprocess.run(
            [*command, *(needed()[name] for name in lacks)],
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{', '.join(lacks)} could not be installed ({error})"
    if ended.returncode == 0:
        return None
    last = ended.stderr.strip().splitlines()[-1:] or ["no message"]
    versions = f"pip download --no-deps --dest .wheels --only-binary :all: {' '.join(lacks)}"
    return f"{', '.join(lacks)} could not be installed ({last[0]}); on a machine with a network: `{versions}`"


def _has_driver() -> bool:
    return Path("/dev/nvidiactl").exists() or shutil.which("nvidia-smi") is not None


def _pythons() -> Iterator[str]:
    yield sys.executable
    for name in ("python3", "python"):
        path = shutil.which(name)
        if path:
            yield path
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        if folder and (Path(folder) / "python3").exists():
            yield str(Path(folder) / "python3")


def _look(python: str) -> dict[str, object] | dict[str, list[str]]:  # JSON of LOOK
    try:
        ended = subprocess.run(
            [python, "-c", LOOK, *needed()], capture_output=True, text=True, timeout=LOOK_SECONDS, check=False
        )
        return json.loads(ended.stdout.strip().splitlines()[-1])
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        return {"error": f"it does not answer ({type(error).__name__})"}


def _why_not(found: Mapping[str, object]) -> str:
    if "error" in found:
        return str(found["error"])
    if found.get("built_for") is None:
        return f"torch {found.get('torch')} is built without CUDA"
    return f"torch {found.get('torch')} sees no GPU"


def _is_in(folder: Path, name: str) -> bool:
    return any(folder.glob(f"{name.replace('-', '_')}-*.dist-info"))

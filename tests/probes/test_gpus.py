"""The GPU probe over a stand-in for NVML's library: what it can read is evidence, what it cannot has a reason."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from ddpdoctor.evidence.gpus import Gpus

PROBE = Path(__file__).parents[2] / "probes" / "gpus.py"
STAND_IN = """
import importlib.util, sys, types
here = __import__("os").path.dirname(__file__)
path = next(p for p in sys.path[::-1] if p and p != here and __import__("os").path.exists(p + "/pynvml.py"))
spec = importlib.util.spec_from_file_location("real_pynvml", path + "/pynvml.py")
real = importlib.util.module_from_spec(spec)
sys.modules["real_pynvml"] = real
spec.loader.exec_module(real)
globals().update({name: value for name, value in vars(real).items() if not name.startswith("__")})


def refuse(*_):
    raise NVMLError(NVML_ERROR_NOT_SUPPORTED)


for name in [name for name in globals() if name.startswith("nvmlDeviceGet")]:
    globals()[name] = refuse
nvmlInit = lambda: None
nvmlSystemGetDriverVersion = lambda: "580.65.06"
nvmlSystemGetCudaDriverVersion_v2 = lambda: 13000
nvmlDeviceGetCount = lambda: 2


def nvmlDeviceGetHandleByIndex(index):
    if index == 1:
        raise NVMLError(NVML_ERROR_GPU_IS_LOST)
    return index


nvmlDeviceGetName = lambda handle: "NVIDIA H100 80GB HBM3"
nvmlDeviceGetMemoryInfo = lambda handle, version=None: types.SimpleNamespace(total=80 << 30, used=3 << 20)
nvmlDeviceGetCurrentClocksEventReasons = lambda handle: 1
nvmlDeviceGetRemappedRows = lambda handle: (1, 0, 1, 0)
nvmlDeviceGetComputeMode = lambda handle: NVML_COMPUTEMODE_EXCLUSIVE_PROCESS
nvmlDeviceGetMigMode = lambda handle: [0, 0]


def nvmlDeviceGetNvLinkState(handle, link):
    if link >= 18:
        raise NVMLError(NVML_ERROR_INVALID_ARGUMENT)
    return int(link != 3)


def nvmlDeviceGetFieldValues(handle, fields):
    assert fields == [230]
    return [types.SimpleNamespace(nvmlReturn=0, value=types.SimpleNamespace(uiVal=2))]


nvmlDeviceGetComputeRunningProcesses = lambda handle: [
    types.SimpleNamespace(pid=__import__("os").getpid(), usedGpuMemory=2 << 20),
    types.SimpleNamespace(pid=2**22 + 1, usedGpuMemory=None),
]
"""


def answered(folder: Path, source: str | None) -> dict:
    if source is not None:
        (folder / "pynvml.py").write_text(source)
    ended = subprocess.run(
        [sys.executable, PROBE],
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(ended.stdout)


@pytest.fixture(scope="module")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Gpus:
    return msgspec.convert(answered(tmp_path_factory.mktemp("nvml"), STAND_IN)["Gpus"], Gpus)


def test_what_nvml_tells_is_evidence(gpus: Gpus) -> None:
    assert (gpus.driver, gpus.cuda_driver) == ("580.65.06", "13.0")
    first = gpus.gpus[0]
    assert (first.memory_bytes, first.memory_used_bytes) == (80 << 30, 3 << 20)
    assert first.remapped_rows is not None
    assert (first.remapped_rows.pending, first.remapped_rows.failed) == (True, False)
    assert (first.recovery_action, first.compute_mode, first.mig) == (2, "exclusive-process", False)


def test_links_end_where_nvml_refuses_the_number(gpus: Gpus) -> None:
    links = gpus.gpus[0].nvlinks
    assert links is not None
    assert len(links) == 18
    assert [number for number, up in enumerate(links) if not up] == [3]


def test_processes_are_named_where_they_can_be_seen(gpus: Gpus) -> None:
    processes = gpus.gpus[0].processes
    assert processes is not None
    assert "gpus.py" in (processes[0].command or "")
    assert (processes[1].command, processes[1].memory_bytes) == (None, None)


def test_what_nvml_refuses_is_none_with_its_reason(gpus: Gpus) -> None:
    first = gpus.gpus[0]
    assert first.ecc_uncorrected is None
    assert first.unread["ecc_uncorrected"] == "Not Supported"


def test_a_lost_gpu_is_kept_with_the_reason(gpus: Gpus) -> None:
    assert gpus.gpus[1].unread == {"handle": "GPU is lost"}


def test_a_host_without_driver_says_so(tmp_path: Path) -> None:
    source = STAND_IN + "\n\ndef nvmlInit():\n    raise NVMLError(NVML_ERROR_DRIVER_NOT_LOADED)\n"
    assert answered(tmp_path, source) == {"missing": {"Gpus": "no NVIDIA GPU (the driver is not loaded)"}}


def test_a_pynvml_that_lacks_a_name_costs_one_answer_and_not_all(tmp_path: Path) -> None:
    """nvidia-ml-py before 12.570 does not know the recovery action."""
    older = STAND_IN + "\ndel NVML_FI_DEV_GET_GPU_RECOVERY_ACTION\n"
    (first, _) = msgspec.convert(answered(tmp_path, older)["Gpus"], Gpus).gpus
    assert first.name == "NVIDIA H100 80GB HBM3"
    assert first.recovery_action is None
    assert "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION" in first.unread["recovery_action"]

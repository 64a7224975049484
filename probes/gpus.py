"""Prints what NVML knows of this host's GPUs, as one JSON line. It starts no work on them and creates no CUDA context."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml

MOST_COMMAND_BYTES = 1 << 16
COMPUTE_MODES = {
    pynvml.NVML_COMPUTEMODE_DEFAULT: "default",
    pynvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited",
    pynvml.NVML_COMPUTEMODE_EXCLUSIVE_PROCESS: "exclusive-process",
}


def main() -> None:
    """Print `{"Gpus": ...}`, or `{"missing": {"Gpus": reason}}` where there is no NVML or no driver."""
    try:
        pynvml.nvmlInit()
        answer = {"Gpus": driver_and_gpus()}
    except pynvml.NVMLError as error:
        answer = {"missing": {"Gpus": no_nvml(error)}}
    print(json.dumps(answer), flush=True)


def no_nvml(error: pynvml.NVMLError) -> str:
    """Why NVML tells nothing, in the words of somebody without a GPU where that is the case."""
    if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return "no NVIDIA GPU (the driver library libnvidia-ml.so.1 is not installed)"
    if error.value == pynvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "no NVIDIA GPU (the driver is not loaded)"
    return f"NVML fails: {error}"


def driver_and_gpus() -> dict[str, Any]:
    """The fields of `Gpus`."""
    version = pynvml.nvmlSystemGetCudaDriverVersion_v2()
    return {
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "cuda_driver": f"{version // 1000}.{version % 1000 // 10}",
        "gpus": [gpu(index) for index in range(pynvml.nvmlDeviceGetCount())],
    }


def gpu(index: int) -> dict[str, Any]:
    """The fields of one `Gpu`; what NVML cannot tell is left out, with its reason in `unread`."""
    try:
        handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    except pynvml.NVMLError as error:
        return {"index": index, "unread": {"handle": str(error)}}
    known: dict[str, Any] = {"index": index}
    unread: dict[str, str] = {}
    for name, read in READERS.items():
        try:
            known[name] = read(handle)
        except (pynvml.NVMLError, AttributeError) as error:  # noqa: PERF203 - each may fail on its own, or be newer than pynvml
            unread[name] = str(error)
    return {**known, "unread": unread}


def remapped_rows(handle: Any) -> dict[str, Any]:  # noqa: ANN401 - NVML's own opaque handle, here and below
    """The counts and the two flags."""
    correctable, uncorrectable, pending, failed = pynvml.nvmlDeviceGetRemappedRows(handle)
    return {
        "correctable": correctable,
        "uncorrectable": uncorrectable,
        "pending": bool(pending),
        "failed": bool(failed),
    }


def recovery_action(handle: Any) -> int:  # noqa: ANN401
    """What NVML says must be done to the GPU: one of NVML_GPU_RECOVERY_ACTION_*."""
    (field,) = pynvml.nvmlDeviceGetFieldValues(handle, [pynvml.NVML_FI_DEV_GET_GPU_RECOVERY_ACTION])
    if field.nvmlReturn != pynvml.NVML_SUCCESS:
        raise pynvml.NVMLError(field.nvmlReturn)
    return int(field.value.uiVal)


def nvlinks(handle: Any) -> list[bool]:  # noqa: ANN401
    """The state of each link that the GPU has; NVML refuses the numbers beyond the last."""
    states: list[bool] = []
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        try:
            states.append(pynvml.nvmlDeviceGetNvLinkState(handle, link) == pynvml.NVML_FEATURE_ENABLED)
        except pynvml.NVMLError as error:  # noqa: PERF203 - the refusal is the end of the list
            if link == 0 and error.value != pynvml.NVML_ERROR_INVALID_ARGUMENT:
                raise
            break
    return states


def mig(handle: Any) -> bool:  # noqa: ANN401
    """Whether MIG is on now."""
    current, _pending = pynvml.nvmlDeviceGetMigMode(handle)
    return bool(current == pynvml.NVML_DEVICE_MIG_ENABLE)


def memory(handle: Any) -> Any:  # noqa: ANN401
    """Total, used and free without what the driver keeps for itself, where the driver can tell the two apart."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError_NotSupported, pynvml.NVMLError_FunctionNotFound):
        return pynvml.nvmlDeviceGetMemoryInfo(handle)


def processes(handle: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Who computes on the GPU, with as much of the command as /proc shows us."""
    return [
        {"pid": process.pid, "memory_bytes": process.usedGpuMemory, "command": command(process.pid)}
        for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)
    ]


def command(pid: int) -> str | None:
    """The command line of a process, or None where there is none that we may see."""
    try:
        with Path(f"/proc/{pid}/cmdline").open("rb") as file:
            line = file.read(MOST_COMMAND_BYTES)  # a process of any user says how much there is
    except OSError:
        return None
    return line.rstrip(b"\0").replace(b"\0", b" ").decode(errors="replace")[:200] or None


READERS: dict[str, Callable[[Any], Any]] = {
    "name": pynvml.nvmlDeviceGetName,
    "uuid": pynvml.nvmlDeviceGetUUID,
    "pci_bus_id": lambda handle: pynvml.nvmlDeviceGetPciInfo(handle).busId,
    "memory_bytes": lambda handle: memory(handle).total,
    "memory_used_bytes": lambda handle: memory(handle).used,
    "ecc_uncorrected": lambda handle: pynvml.nvmlDeviceGetTotalEccErrors(
        handle, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, pynvml.NVML_VOLATILE_ECC
    ),
    "remapped_rows": remapped_rows,
    "recovery_action": recovery_action,
    "clock_reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons,
    "temperature_celsius": lambda handle: pynvml.nvmlDeviceGetTemperature(handle, pynvml.NVML_TEMPERATURE_GPU),
    "nvlinks": nvlinks,
    "mig": mig,
    "compute_mode": lambda handle: COMPUTE_MODES.get(pynvml.nvmlDeviceGetComputeMode(handle)),
    "persistence": lambda handle: pynvml.nvmlDeviceGetPersistenceMode(handle) == pynvml.NVML_FEATURE_ENABLED,
    "use_percent": lambda handle: pynvml.nvmlDeviceGetUtilizationRates(handle).gpu,
    "processes": processes,
}

if __name__ == "__main__":
    main()

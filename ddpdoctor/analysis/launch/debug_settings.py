"""The variables that are meant for debugging, when they are on, and what they do to a job."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


def _on(value: str) -> bool:
    return value.strip().lower() not in {"", "0", "false", "no", "off", "n"}


def _any(value: str) -> bool:
    return bool(value.strip())


class DebugSetting(NamedTuple):
    """A variable that is meant for debugging."""

    active: Callable[[str], bool]
    """Whether a value of the variable turns it on."""
    effect: str
    """What it does to a job that trains, as a sentence without a full stop."""


SETTINGS = {  # the section "Debugging" of NCCL's guide, which warns against production use; torch's own by measurement
    "CUDA_LAUNCH_BLOCKING": DebugSetting(_on, "every kernel launch blocks until the kernel has finished"),
    "TORCH_DISTRIBUTED_DEBUG": DebugSetting(
        lambda value: value.upper() == "DETAIL",
        "every collective is first compared across all ranks, which takes ten times as long",
    ),
    "TORCH_NCCL_BLOCKING_WAIT": DebugSetting(_on, "the CPU blocks in every collective"),
    "TORCH_NCCL_NAN_CHECK": DebugSetting(_on, "every buffer is checked for NaN before each collective"),
    "TORCH_NCCL_DESYNC_DEBUG": DebugSetting(_on, "every collective writes to the store"),
    "NCCL_P2P_DISABLE": DebugSetting(_on, "GPUs do not transfer data peer to peer"),
    "NCCL_P2P_LEVEL": DebugSetting(_any, "it overrides which GPUs transfer data peer to peer"),
    "NCCL_SHM_DISABLE": DebugSetting(_on, "local ranks communicate over the network"),
    "NCCL_IB_DISABLE": DebugSetting(_on, "NCCL uses TCP instead of InfiniBand and RoCE"),
    "NCCL_ALGO": DebugSetting(_any, "NCCL cannot choose its algorithm by message size"),
    "NCCL_PROTO": DebugSetting(
        _any, "NCCL cannot choose its protocol by message size; forced LL128 corrupts data where it is unsupported"
    ),
    "NCCL_BUFFSIZE": DebugSetting(_any, "it overrides the size of NCCL's buffers"),
    "NCCL_NTHREADS": DebugSetting(_any, "it overrides the number of threads of NCCL's kernels"),
    "NCCL_NVLS_ENABLE": DebugSetting(lambda value: value.strip() == "0", "NVLink SHARP is not used"),
    "NCCL_LAUNCH_MODE": DebugSetting(_any, "it overrides how NCCL launches kernels"),
    "NCCL_CHECKS_DISABLE": DebugSetting(_on, "arguments are not checked"),
}

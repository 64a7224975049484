"""A setting meant for debugging is on: it makes the job slower, or hides what it was meant to show."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from ddpdoctor.analysis.launch.group_by_value import who_sets
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.host import Environment
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP191",
    name="debug-setting-left-on",
    summary="a setting for debugging is on",
    severity=Severity.WARN,
    remedy="unset it when you have finished debugging",
    background=True,
)


def _on(value: str) -> bool:
    return value.strip().lower() not in {"", "0", "false", "no", "off", "n"}


def _any(value: str) -> bool:
    return bool(value.strip())


class _Setting(NamedTuple):
    active: Callable[[str], bool]
    effect: str


SETTINGS = {  # the section "Debugging" of NCCL's guide, which warns against production use; torch's own by measurement
    "CUDA_LAUNCH_BLOCKING": _Setting(_on, "every kernel launch blocks until the kernel has finished"),
    "TORCH_DISTRIBUTED_DEBUG": _Setting(
        lambda value: value.upper() == "DETAIL",
        "every collective is first compared across all ranks, which takes ten times as long",
    ),
    "TORCH_NCCL_BLOCKING_WAIT": _Setting(_on, "the CPU blocks in every collective"),
    "TORCH_NCCL_NAN_CHECK": _Setting(_on, "every buffer is checked for NaN before each collective"),
    "TORCH_NCCL_DESYNC_DEBUG": _Setting(_on, "every collective writes to the store"),
    "NCCL_P2P_DISABLE": _Setting(_on, "GPUs do not transfer data peer to peer"),
    "NCCL_P2P_LEVEL": _Setting(_any, "it overrides which GPUs transfer data peer to peer"),
    "NCCL_SHM_DISABLE": _Setting(_on, "local ranks communicate over the network"),
    "NCCL_IB_DISABLE": _Setting(_on, "NCCL uses TCP instead of InfiniBand and RoCE"),
    "NCCL_ALGO": _Setting(_any, "NCCL cannot choose its algorithm by message size"),
    "NCCL_PROTO": _Setting(
        _any, "NCCL cannot choose its protocol by message size; forced LL128 corrupts data where it is unsupported"
    ),
    "NCCL_BUFFSIZE": _Setting(_any, "it overrides the size of NCCL's buffers"),
    "NCCL_NTHREADS": _Setting(_any, "it overrides the number of threads of NCCL's kernels"),
    "NCCL_NVLS_ENABLE": _Setting(lambda value: value.strip() == "0", "NVLink SHARP is not used"),
    "NCCL_LAUNCH_MODE": _Setting(_any, "it overrides how NCCL launches kernels"),
    "NCCL_CHECKS_DISABLE": _Setting(_on, "arguments are not checked"),
}


def check(environment: PerRank[Environment]) -> Iterator[Finding]:
    """One finding for each such setting, with its effect and the ranks that have it."""
    for name, setters in who_sets(environment, SETTINGS.keys()):
        values = [value for value in setters.values if SETTINGS[name].active(value)]
        if values:
            yield RULE.finding(
                f"{name}={values[0]} is set{setters.suffix}: {SETTINGS[name].effect}",
                ranks=setters.ranks,
                variable=name,
                value=values[0],
            )

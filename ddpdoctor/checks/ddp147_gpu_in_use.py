"""Another process uses a GPU.

A rank left over from an earlier job holds memory and slows its GPU down.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import GpuProcess, Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP147",
    name="gpu-in-use",
    summary="another process uses a GPU",
    severity=Severity.FAIL,
    remedy="end it if it is left over from an earlier job (`kill PID`), or use other GPUs",
    explains=("DDP148", "DDP145"),
    background=True,
)

SERVICES = ("nvidia-cuda-mps-server", "nvidia-cuda-mps-control", "dcgm", "nv-hostengine")


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU with processes; ddpdoctor itself starts none on it, and services of the driver are left out."""
    for host, gpu, processes in readable(gpus, "processes", lambda gpu: gpu.processes):
        others = [process for process in processes if not any(name in (process.command or "") for name in SERVICES)]
        if others:
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} is in use by {', '.join(map(_describe, others))}",
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                pids=[one.pid for one in others],
            )


def _describe(process: GpuProcess) -> str:
    who = f"pid {process.pid} ({process.command or 'outside this container, or ended'})"
    return f"{who} with {process.memory_bytes / 2**30:.1f} GiB" if process.memory_bytes is not None else who

"""Heat, power or a setting reduces a GPU's clocks.

One slow GPU makes every rank wait.
"""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.gpu_property import readable
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.gpus import Gpus
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP135",
    name="gpu-clocks-held-down",
    summary="heat, power or a setting reduces a GPU's clocks",
    severity=Severity.FAIL,
    remedy="check the cooling and the power supply of the host: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER`",
    background=True,
)

IDLE = 0x1
ALWAYS_BAD = {0x40: "hardware thermal slowdown", 0x80: "power brake"}  # true at idle, too
BAD_UNDER_LOAD = {0x8: "hardware slowdown"}  # at idle it may be a change of power state
SETTINGS = {0x2: "application clocks", 0x10: "sync boost", 0x20: "software thermal slowdown"}


def check(gpus: PerRank[Gpus]) -> Iterator[Finding]:
    """One finding per GPU; an idle GPU is judged by heat and power alone, and a software power cap is normal under load."""
    for host, gpu, mask in readable(gpus, "clock_reasons", lambda gpu: gpu.clock_reasons):
        grave = ALWAYS_BAD if mask & IDLE else {**ALWAYS_BAD, **BAD_UNDER_LOAD}
        found = [words for bit, words in grave.items() if mask & bit]
        severity = Severity.FAIL
        if not found and not mask & IDLE:
            found = [words for bit, words in SETTINGS.items() if mask & bit]
            severity = Severity.WARN
        if found:
            heat = f" at {gpu.temperature_celsius} C" if gpu.temperature_celsius is not None else ""
            yield RULE.finding(
                f"GPU {gpu.index} of {host.host} runs at reduced clocks{heat}: {', '.join(found)}",
                severity=severity,
                hosts=(host.host,),
                ranks=host.ranks,
                gpu=gpu.index,
                reasons=mask,
            )

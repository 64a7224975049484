"""DDP760: a launch script or manifest turns on a setting that is meant for debugging."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.debug_settings import SETTINGS
from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP760",
    name="debug-setting-in-script",
    summary="a launch script turns on a setting that is meant for debugging",
    severity=Severity.INFO,
    remedy="remove it when you have finished debugging, or set it only where it is needed: "
    '`[ -n "${DEBUG:-}" ] && export NAME=VALUE`',
    leads_to=("DDP191",),
)
_SLOW = frozenset(
    {"CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "TORCH_NCCL_NAN_CHECK", "TORCH_NCCL_DESYNC_DEBUG"}
)
"""Those that slow down any job on any host; of the others a host may have need."""


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each such variable that is set whatever happens."""
    for path, setting in launch.settings():
        known = SETTINGS.get(setting.name)
        if known is None or not setting.value or "$" in setting.value or not known.active(setting.value):
            continue
        yield RULE.finding(
            f"{setting.name}={setting.value} is set for every run: {known.effect}",
            where=[place(path, setting.line)],
            severity=Severity.WARN if setting.name in _SLOW else Severity.INFO,
            variable=setting.name,
        )

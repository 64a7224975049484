"""DDP761: a launch script or manifest sets a variable whose name torch, gloo and NCCL do not know."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP761",
    name="misspelt-variable-in-script",
    summary="a launch script sets a variable of torch, gloo or NCCL that is misspelt or has another name now",
    severity=Severity.WARN,
    remedy="correct the name: a variable that nothing reads is silently ignored",
    leads_to=("DDP192", "DDP189"),
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each name that no library here knows and that is nearly one that they know, and for each old name."""
    names = launch.names
    if names is None:
        return
    nearest = {lookup.name: lookup.nearest for lookup in names.judged if not lookup.known and lookup.nearest}
    for path, setting in launch.settings():
        where = [place(path, setting.line)]
        if meant := nearest.get(setting.name):
            yield RULE.finding(
                f"{setting.name} is set, but torch, gloo and NCCL do not read it; did you mean {meant}?",
                where=where,
                remedy=f"write {meant} if that was meant; as it is, it is silently ignored",
                variable=setting.name,
                nearest=meant,
            )
        elif current := names.renamed.get(setting.name):
            yield RULE.finding(
                f"{setting.name} is the old name of {current}, and still read",
                where=where,
                severity=Severity.INFO,
                remedy=f"write {current}: the old name may go",
                variable=setting.name,
                nearest=current,
            )

"""DDP703: a script starts its ranks with the launcher that torchrun replaced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.model import Edit, Finding, Fix, Rule, Severity

RULE = Rule(
    code="DDP703",
    name="deprecated-launcher",
    summary="ranks are started with torch.distributed.launch, which torchrun replaced",
    severity=Severity.WARN,
    remedy="write `torchrun` with the same options, and read LOCAL_RANK from the environment instead of --local-rank",
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each line that starts torch.distributed.launch."""
    for script in launch.scripts:
        starts = {
            start.line: start
            for start in script.torchruns
            if start.launcher == "torch.distributed.launch" and not start.command.elsewhere
        }
        for line, start in sorted(starts.items()):
            finding = RULE.finding(
                "torch.distributed.launch is deprecated, and passes the script a --local-rank option that it may not accept",
                where=[place(script.path, line)],
            )
            safe = "use-env" in start.options.values or any(
                "LOCAL_RANK" in program.reads for program in script.programs
            )
            yield replace(finding, fix=Fix(edit=Edit.TORCHRUN, file=script.path, line=line, safe=safe))

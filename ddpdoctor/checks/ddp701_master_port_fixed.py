"""DDP701: a batch script names the port itself, so that two jobs on one node meet."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, place
from ddpdoctor.model import Finding, Rule, Severity
from ddpdoctor.whole_numbers import whole_number

RULE = Rule(
    code="DDP701",
    name="master-port-fixed",
    summary="a Slurm script sets a fixed port: the second job on a node fails, or joins the first",
    severity=Severity.WARN,
    remedy="derive the port from the job, `MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))`, as `ddpdoctor init slurm` does",
    leads_to=("DDP202",),
)
_PORT = re.compile(r"(?:^|:)(\d{4,5})$")
_LARGEST = 65535


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each fixed port in a script for nodes that other jobs may share."""
    for script in launch.scripts:
        if not script.shared:
            continue
        for program, each in script.overwritten("MASTER_PORT"):
            if (port := whole_number(each.value)) is not None:
                yield RULE.finding(
                    f"the program sets MASTER_PORT to {each.value}, and the nodes of {script.path} may be shared",
                    where=[place(program.path, each.line)],
                    port=port,
                )
        for line, port in dict(_fixed(script)).items():
            yield RULE.finding(
                f"port {port} is fixed in a script whose nodes may be shared",
                where=[place(script.path, line)],
                port=port,
            )


def _fixed(script: LaunchScript) -> Iterator[tuple[int, int]]:
    """The line and the port of each that the script always takes; the variable's line where the variable holds it."""
    variables = {setting.value: setting.line for setting in script.script.variables if not setting.conditional}
    for setting in script.always_sets("MASTER_PORT"):
        if (fixed := whole_number(setting.value)) is not None:
            yield setting.line, fixed
    for start in script.torchruns:
        for name in ("master-port", "rdzv-endpoint"):
            match = _PORT.search(start.options.values.get(name, ""))
            given = whole_number(match[1]) if match else None
            if match and given and start.always and given <= _LARGEST:
                yield variables.get(match[1], start.line), given

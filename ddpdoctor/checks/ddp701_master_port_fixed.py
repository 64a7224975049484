"""DDP701: a batch script names the port itself, so that two jobs on one node meet."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.shell_script import LaunchScripts
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP701",
    name="master-port-fixed",
    summary="a Slurm script sets a fixed port: the second job on a node fails, or joins the first",
    severity=Severity.WARN,
    remedy="derive the port from the job, `MASTER_PORT=$((20000 + SLURM_JOB_ID % 10000))`, as `ddpdoctor init slurm` does",
)
_GIVEN = r"--(?:master[-_]port|rdzv[-_]endpoint)[=\s]+\S*?(\d{4,5})\b"


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each fixed port in a script for nodes that other jobs may share."""
    for script in launch.scripts:
        if not script.batch or script.option("exclusive"):
            continue
        named = [
            (setting.value, setting.line)
            for setting in script.variables
            if setting.name == "MASTER_PORT" and setting.value.isdecimal()
        ]
        named += [(match[1], line.number) for line, match in script.always(_GIVEN)]
        for program, each in script.overwritten("MASTER_PORT"):
            if each.value.isdecimal():
                yield RULE.finding(
                    f"the program sets MASTER_PORT to {each.value}, and the nodes of {script.path} may be shared",
                    where=[Where(rank=None, file=program.path, line=each.line, function="")],
                    port=int(each.value),
                )
        for port, line in named:
            yield RULE.finding(
                f"port {port} is fixed in a script whose nodes may be shared",
                where=[Where(rank=None, file=script.path, line=line, function="")],
                port=int(port),
            )

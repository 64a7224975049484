"""DDP702: a script for several nodes sends every node to itself."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.shell_script import LaunchScripts
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP702",
    name="master-is-localhost",
    summary="a script for several nodes uses localhost as the rendezvous address",
    severity=Severity.FAIL,
    remedy='use the first node: `MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)` under Slurm',
)
_LOOPBACK = r"(localhost|127\.\d+\.\d+\.\d+|::1)"
_GIVEN = rf"--(?:master[-_]addr|rdzv[-_]endpoint)[=\s]+[\"']?{_LOOPBACK}"
_BEGINNINGS = ("localhost", "127.", "::1")


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each loopback address or `--standalone` in a script for several nodes."""
    for script in launch.scripts:
        if script.nodes < 2:
            continue
        named = [
            (f"MASTER_ADDR={setting.value}", setting.line)
            for setting in script.variables
            if setting.name == "MASTER_ADDR" and setting.value.startswith(_BEGINNINGS)
        ]
        named += [(match[0], line.number) for line, match in script.always(_GIVEN)]
        named += [
            ("--standalone", line.number)
            for line, _ in script.always(r"(?:torchrun|distributed\.run)\b.*--standalone\b")
        ]
        for program, each in script.overwritten("MASTER_ADDR"):
            if each.value.startswith(_BEGINNINGS):
                yield RULE.finding(
                    f"the program sets MASTER_ADDR to {each.value}, and {script.path} starts it on {script.nodes} nodes, "
                    "so every node tries to rendezvous with itself",
                    where=[Where(rank=None, file=program.path, line=each.line, function="")],
                    nodes=script.nodes,
                )
        for said, line in named:
            yield RULE.finding(
                f"{said} in a script for {script.nodes} nodes, so every node tries to rendezvous with itself",
                where=[Where(rank=None, file=script.path, line=line, function="")],
                nodes=script.nodes,
            )

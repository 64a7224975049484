"""DDP704: a script sets RANK or WORLD_SIZE from Slurm's variables and starts torchrun, which sets them too."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.shell_script import LaunchScripts
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP704",
    name="slurm-rank-beside-torchrun",
    summary="RANK or WORLD_SIZE comes from Slurm in a script that starts torchrun",
    severity=Severity.WARN,
    remedy="let torchrun set RANK, WORLD_SIZE and LOCAL_RANK, and give it only --node-rank $SLURM_NODEID; or leave torchrun out "
    "and start one task per rank with srun",
)
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")
_OF_NODES = r"--(?:node[-_]rank|nnodes|machine_rank|num_machines)[=\s]+[\"']?\$\{?(\w+)"


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each such variable."""
    for script in launch.scripts:
        torchrun = script.torchrun
        if torchrun is None:
            continue
        of_nodes = {match[1] for _, match in script.found(_OF_NODES)}  # torchrun is given them as what they are
        for setting in script.variables:
            if setting.name in _RANKS and setting.name not in of_nodes and "SLURM_" in setting.value:
                yield RULE.finding(
                    f"{setting.name}={setting.value} counts Slurm tasks, but torchrun in line {torchrun.number} counts ranks",
                    where=[Where(rank=None, file=script.path, line=setting.line, function="")],
                )
        for program, each in script.overwritten(*_RANKS):
            if "SLURM_" in each.value:
                yield RULE.finding(
                    f"the program sets {each.name} to {each.value}, which counts Slurm tasks, but torchrun in line "
                    f"{torchrun.number} of {script.path} counts ranks",
                    where=[Where(rank=None, file=program.path, line=each.line, function="")],
                )

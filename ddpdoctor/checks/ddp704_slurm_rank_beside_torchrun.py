"""DDP704: a script sets RANK or WORLD_SIZE from Slurm's variables and starts torchrun, which sets them too."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP704",
    name="slurm-rank-beside-torchrun",
    summary="RANK or WORLD_SIZE comes from Slurm in a script that starts torchrun",
    severity=Severity.WARN,
    remedy="let torchrun set RANK, WORLD_SIZE and LOCAL_RANK, and give it only --node-rank $SLURM_NODEID; or leave torchrun out "
    "and start one task per rank with srun",
    leads_to=("DDP217",),
)
_RANKS = ("RANK", "WORLD_SIZE", "LOCAL_RANK")


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each such variable."""
    for script in launch.scripts:
        if not script.torchruns:
            continue
        line = script.torchruns[0].line
        of_nodes = {  # torchrun is given them as what they are
            start.options.values.get(name) for start in script.torchruns for name in ("node-rank", "nnodes")
        }
        for setting in script.always_sets(*_RANKS):
            if "SLURM_" in setting.written and setting.value not in of_nodes:
                yield RULE.finding(
                    f"{setting.name}={setting.written} counts Slurm tasks, but torchrun in line {line} counts ranks",
                    where=[place(script.path, setting.line)],
                )
        for program, each in script.overwritten(*_RANKS):
            if "SLURM_" in each.value:
                yield RULE.finding(
                    f"the program sets {each.name} to {each.value}, which counts Slurm tasks, but torchrun in line "
                    f"{line} of {script.path} counts ranks",
                    where=[place(program.path, each.line)],
                )

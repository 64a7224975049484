"""DDP764: each task takes its own host as the rendezvous address."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScript, LaunchScripts, place
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP764",
    name="master-is-each-node",
    summary="each node takes its own host name as the rendezvous address",
    severity=Severity.FAIL,
    remedy="set it once, in the batch script outside of srun: "
    '`export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)`',
    leads_to=("DDP205",),
)
_OWN = re.compile(
    r"\$\(\s{0,20}(?:hostname\b[^|)$]{0,200}|uname -n\s{0,20})\)"
    r"|`\s{0,20}hostname\b[^|`]{0,200}`"
    r"|\$(?:HOSTNAME|SLURMD_NODENAME|HOST)\b"
)


def check(launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each address that the shell of a task on several nodes makes from its own host."""
    for script in launch.scripts:
        if script.nodes > 1:
            for message, line in dict.fromkeys(_own_host(script)):
                yield RULE.finding(
                    f"{message} is filled in by each task: every one of the {script.nodes} nodes takes itself",
                    where=[place(script.path, line)],
                    nodes=script.nodes,
                )


def _own_host(script: LaunchScript) -> Iterator[tuple[str, int]]:
    for setting in script.script.variables:
        if setting.name == "MASTER_ADDR" and setting.in_task and not setting.conditional and _OWN.match(setting.value):
            yield f"MASTER_ADDR={setting.written}", setting.line
    for start in script.torchruns:
        if not start.in_task or not start.always or script.step_nodes(start.step) == 1:
            continue
        for name in ("master-addr", "rdzv-endpoint"):
            value = start.options.values.get(name, "")
            if _OWN.match(value) and not any(
                each.value == value.partition(":")[0] for each in script.always_sets("MASTER_ADDR")
            ):
                yield f"--{name}={value}", start.line

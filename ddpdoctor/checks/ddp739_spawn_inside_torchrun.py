"""DDP739: a program that torchrun starts once per rank spawns its ranks itself."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.launch.launch_scripts import LaunchScripts, place
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.training_code import Call
from ddpdoctor.messages.code_findings import where
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP739",
    name="spawn-inside-torchrun",
    summary="torchrun starts a program once per rank, and each of them spawns all ranks again",
    severity=Severity.FAIL,
    remedy="start the program with plain python, or drop the spawn and read RANK, LOCAL_RANK and WORLD_SIZE",
    leads_to=("DDP207",),
)


def check(graph: CallGraph, launch: LaunchScripts) -> Iterator[Finding]:
    """One finding for each start of several ranks of a program that spawns whatever the environment says."""
    for script in launch.scripts:
        for start in script.torchruns:
            ranks = start.ranks_per_node
            if ranks == 1 or start.launcher == "accelerate launch":
                continue
            for word in start.command.words:
                for call in _spawns(graph, word):
                    count = f"{ranks} processes" if ranks else "several processes"
                    yield RULE.finding(
                        f"torchrun starts {count} of {word}, and each of them spawns ranks of its own: the ranks of all of them "
                        "claim the same numbers",
                        where=[where(call.place), place(script.path, start.line)],
                    )


def _spawns(graph: CallGraph, program: str) -> Iterator[Call]:
    """The spawn that a program makes for certain."""
    if not program.endswith(".py"):
        return
    roots = {each.root for each in graph.code.programs if f"/{each.root}".endswith(f"/{program.removeprefix('./')}")}
    for function, call in graph.calls("spawn"):
        own = function.id.partition("::")[0] in roots
        if own and all(guard.form == "main" for guard in call.guards) and graph.on_all_ranks(function) is True:
            yield call
            return

"""DDP724: a program leaves its process group behind when it ends."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DEVICE
from ddpdoctor.evidence.training_code import Function
from ddpdoctor.messages.code_findings import code_finding, fix
from ddpdoctor.model import Edit, Finding, Rule, Severity

RULE = Rule(
    code="DDP724",
    name="process-group-not-destroyed",
    summary="a program initialises a process group and never destroys it: its end may hang or warn of leaks",
    severity=Severity.INFO,
    remedy="call `dist.destroy_process_group()` as the last line of the program",
    leads_to=("DDP318",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each call of init_process_group in a program that calls no destroy_process_group."""
    for function, call in graph.calls("init"):
        programs = graph.programs(function)
        if not programs or graph.any_program(function, {"destroy_process_group", *DOES_THE_DEVICE}):
            continue
        roots = {program.root for program in programs if program.root in graph.modules}
        if not any(graph.modules[root].main for root in roots) and not _of_a_module(graph, function, roots):
            continue
        yield code_finding(
            RULE,
            "nothing destroys this process group: the program's end may hang, and NCCL warns of leaks",
            call.place,
            fix=None if _spawned(graph, function) else fix(Edit.END_PROCESS_GROUP, call.place),
        )


def _of_a_module(graph: CallGraph, function: Function, roots: set[str], depth: int = 4) -> bool:
    """Whether a started module makes the group: its code, functions that this calls, or one that it starts processes with."""
    if function.entry:
        return function.id.partition("::")[0] in roots
    callers = graph.callers.get(function.id, ()) if depth else ()
    return any(_of_a_module(graph, caller, roots, depth - 1) for caller, _ in callers)


def _spawned(graph: CallGraph, function: Function, depth: int = 4) -> bool:
    """Whether processes that the program starts make the group: the end of the program itself ends none of theirs."""
    if function.entry and not function.id.endswith("::<module>"):
        return True
    callers = graph.callers.get(function.id, ()) if depth else ()
    return any(_spawned(graph, caller, depth - 1) for caller, _ in callers)

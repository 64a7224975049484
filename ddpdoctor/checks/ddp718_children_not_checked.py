"""DDP718: processes of ranks are joined without a look at how they ended."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP718",
    name="children-not-checked",
    summary="processes of ranks are joined, and nothing looks at their exit codes: a failed rank ends in silence",
    severity=Severity.INFO,
    remedy="start them with `torch.multiprocessing.spawn`, which raises what a rank raised, or test `process.exitcode`",
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that starts ranks with Process in a program that reads no exit code."""
    seen: set[str] = set()
    for function, call in graph.calls("process"):
        if function.id in seen or graph.any_program(function, ("exitcode", "sentinel")):
            continue
        if not graph.any_program(function, ("join",)) or not _starts_a_rank(graph, function, call):
            continue
        seen.add(function.id)
        yield code_finding(
            RULE,
            "these processes are ranks, and nothing reads their exit codes: the program ends with 0 when a rank has failed",
            call.place,
            *(other.place for other in function.calls if other.does == "join-process" and other.text[:1] not in "\"'"),
        )


def _starts_a_rank(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether the function that the process runs initialises a process group."""
    target = call.argument("target", 1)
    held = target.only(Kind.FUNCTION) if target is not None else None
    if held is not None and (named := graph.functions.get(held.made)) is not None:
        return _initialises(graph, named, 3)
    name = target.text.rpartition(".")[2] if target is not None else ""
    return any(
        each.entry and each.place.function == name and _initialises(graph, each, 3)
        for each in graph.files.functions_near(function)
    )


def _initialises(graph: CallGraph, function: Function, depth: int) -> bool:
    inner = (graph.functions.get(call.target) for call in function.calls if call.target and depth)
    return any(call.does == "init" for call in function.calls) or any(
        each is not None and _initialises(graph, each, depth - 1) for each in inner
    )

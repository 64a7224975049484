"""DDP735: ranks make different numbers of steps, because each goes over its own files."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import DOES_THE_DATA, CallGraph
from ddpdoctor.analysis.training_code.later_calls import reduces_gradients
from ddpdoctor.evidence.training_code import Kind, Loop, Origin, Value
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP735",
    name="uneven-loop",
    summary="each rank loops over its own part of a list, with a backward inside: the rank with more of it waits for the others",
    severity=Severity.WARN,
    remedy="run the loop inside `with Join([model])`, or cut all parts to the length of the shortest",
    leads_to=("DDP306",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each loop over a part that the rank chose, with a step inside."""
    for function in graph.functions.values():
        for loop in function.loops:
            part = _part(graph, loop)
            if (
                part is None
                or loop.over.may(Kind.SHARED)
                or any(context.name.endswith(("Join", ".join")) for context in loop.contexts)
            ):
                continue
            step = next(
                (
                    call
                    for call in function.calls
                    if loop.order in call.loops and reduces_gradients(graph, call) and not call.under("Join", ".join")
                ),
                None,
            )
            if step is not None:
                yield code_finding(
                    RULE,
                    f"`{loop.head}` turns as often as this rank has items, and the backward in line {step.place.line} "
                    "needs all ranks",
                    loop.place,
                    step.place,
                    because=part,
                )


def _part(graph: CallGraph, loop: Loop) -> Origin | None:
    """The part of the data that the rank has chosen, and that a loop goes over: also through a loader of an iterable data set."""
    found = next((one for one in loop.over.origins if one.note in {"part", "length"}), None)
    if found is not None:
        return found
    for function, loader in graph.loaders(loop.over):
        dataset = loader.argument("dataset", 0)
        made = [graph.made[each][1] for each in dataset.made if each in graph.made] if dataset is not None else []
        if dataset is None or dataset.only(Kind.DATASET) is None or not made or not _only_once(graph, dataset):
            continue
        if loader.argument("drop_last") is None and not graph.any_program(function, DOES_THE_DATA):
            given = (argument.value for each in made for argument in each.arguments)
            part = next((one for value in given for one in value.origins if one.note == "part"), None)
            if part is not None:
                return part
    return None


def _only_once(graph: CallGraph, dataset: Value) -> bool:
    """Whether a data set is an iterable one whose iterator ends: there is no `while` in it."""
    for origin in dataset.origins:
        method = graph.functions.get(f"{origin.note}.__iter__")
        if method is None or any(loop.head.startswith("while") for loop in method.loops):
            return False
    return True

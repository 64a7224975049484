"""DDP753: a metric over this rank's part of the data is published as that of the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import DOES_THE_DATA, CallGraph
from ddpdoctor.analysis.training_code.evaluation import evaluation_loaders, of_one_part
from ddpdoctor.evidence.training_code import RANK_KINDS, Call, Function, Kind, Place, Value
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP753",
    name="metric-of-one-rank",
    summary="a metric over one rank's part of the evaluation data is logged or compared as if it were over all of it",
    severity=Severity.WARN,
    remedy="sum the numerator and the denominator over all ranks with all_reduce before the metric is used",
    leads_to=("DDP515",),
)
LEAVES_METRICS = frozenset({"ignite", "mmengine", "accelerate", "deepspeed"})
"""Frameworks in which a loop that the program writes itself is reduced by nobody else."""
_NAMED_LOCAL = re.compile(r"(?i)rank|local|shard|per.?process")
_COMPARED = re.compile(r"[<>]")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that logs or compares such a value."""
    loaders = evaluation_loaders(graph)
    if not loaders:
        return
    for function in graph.functions.values():
        if graph.any_program(function, DOES_THE_DATA - LEAVES_METRICS):
            continue
        used = next(_uses(graph, function, loaders), None)
        if used is None:
            continue
        place, how, value, made = used
        _, loader = graph.made[made]
        origin = next(one for one in value.origins if one.kind is Kind.LOCAL)
        yield code_finding(
            RULE,
            f"`{value.text}` is {how}, and it is of this rank's part of the data: the loader of line {loader.place.line} gives "
            "each rank another part",
            place,
            loader.place,
            because=origin,
            remedy=f"all_reduce the sums that `{value.text}` is made of before it is used",
        )


def _uses(
    graph: CallGraph, function: Function, loaders: dict[str, list[tuple[str, int, int]]]
) -> Iterator[tuple[Place, str, Value, str]]:
    for call in function.calls:
        for guard in call.guards:
            if guard.form == "if" and _COMPARED.search(guard.test) and "best" in guard.test.lower():
                made = of_one_part(graph, guard.value, loaders)
                if made and not _inside(function, call.order, loaders[made]):
                    place = Place(file=guard.file, line=guard.line, column=1, function=function.place.function)
                    yield place, "compared", Value(text=guard.test, origins=guard.value.origins), made
        if call.does in {"print", "log"} and not _named_local(call):
            for argument in call.arguments:
                made = of_one_part(graph, argument.value, loaders)
                if made and not _inside(function, call.order, loaders[made]):
                    how = "printed" if call.does == "print" else f"logged by {short(call)}"
                    yield call.place, how, argument.value, made


def _named_local(call: Call) -> bool:
    return any(
        argument.value.may(*RANK_KINDS) or _NAMED_LOCAL.search(argument.value.text) for argument in call.arguments
    )


def _inside(function: Function, order: int, loops: list[tuple[str, int, int]]) -> bool:
    return any(function.id == owner and first < order <= last for owner, first, last in loops)

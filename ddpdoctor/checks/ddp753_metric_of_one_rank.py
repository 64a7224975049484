"""DDP753: a metric over this rank's part of the data is published as that of the whole."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.evaluation import evaluation_loaders, of_one_part
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.several_ranks import runs_several
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Value
from ddpdoctor.evidence.training_code import Call, Function, Guard, Place
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
LEAVES_METRICS = frozenset({"ignite", "mmengine", "accelerate", "deepspeed", "fabric"})
"""Frameworks in which a loop that the program writes itself is reduced by nobody else."""
_NAMED_LOCAL = re.compile(r"(?i)rank|local|shard|per.?process")
_COMPARED = re.compile(r"[<>]")


_EVALUATES = frozenset({"validation_step", "test_step", "on_validation_epoch_end", "on_test_epoch_end",
                        "validation_epoch_end", "test_epoch_end"})  # fmt: skip
"""Hooks of a LightningModule that run on this rank's part of the evaluation data."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that logs or compares such a value."""
    yield from _in_lightning(graph)
    loaders = evaluation_loaders(graph)
    if not loaders:
        return
    found = {
        function.id: used
        for function in graph.functions.values()
        if not graph.any_program(function, DOES_THE_DATA - LEAVES_METRICS)
        and (used := min(_uses(graph, function, loaders), key=_by_function, default=None)) is not None
    }
    showing = {used[-1] for used in found.values()}
    for owner, (place, how, value, made, _) in found.items():
        if owner in showing:  # a caller gives it the value, and is named
            continue
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


def _in_lightning(graph: CallGraph) -> Iterator[Finding]:
    """The metrics of one rank that Lightning logs, and that its callbacks choose or stop by: without `sync_dist`."""
    for function, call in graph.calls("log"):
        if function.place.function not in _EVALUATES or call.name != ".log" or call.receiver is None:
            continue
        name, value = call.argument("name", 0), call.argument("value", 1)
        if name is None or value is None or name.constant is None:
            continue
        asked = call.argument("sync_dist") or call.argument("rank_zero_only") or call.argument("**")
        local = value.only(Kind.LOCAL)
        if asked is not None or local is None or call.receiver.text != "self" or not _has_parts(graph, function):
            continue
        watched = name.constant in _watched(graph, function)
        yield code_finding(
            RULE,
            f"`{value.text}` is logged as {name.constant} of this rank's part of the data, without `sync_dist`, and "
            + ("a callback chooses by it" if watched else "the loggers show what rank 0 has"),
            call.place,
            because=local,
            remedy="add `sync_dist=True`, or log a metric of torchmetrics, which gathers what all ranks have counted",
        )


def _watched(graph: CallGraph, function: Function) -> set[str | None]:
    """The metrics that callbacks of a function's programs choose or stop by."""
    asked = (
        call.argument("monitor", 0 if call.name.endswith("EarlyStopping") else 2)
        for _, call in graph.calls_near(function, "watches")
    )
    return {monitor.constant for monitor in asked if monitor is not None}


def _has_parts(graph: CallGraph, function: Function) -> bool:
    """Whether Lightning certainly runs several ranks, and gives each its part of the data."""
    asked = (
        call.argument(name)
        for _, call in graph.calls_near(function, "lightning-trainer")
        for name in ("use_distributed_sampler", "replace_sampler_ddp", "**")
    )
    whole = any(each is not None and each.constant != "True" for each in asked)
    return not whole and runs_several(graph, function, "lightning")


_Use = tuple[Place, str, Value, str, str]
"""Where a function uses such a value, how, the value, its loader, and the function of the program that shows it."""


def _by_function(use: _Use) -> bool:
    """Whether it is a function of the program that shows the value: uses in plain sight come first."""
    return use[-1] != ""


def _uses(graph: CallGraph, function: Function, loaders: dict[str, list[tuple[str, int, int]]]) -> Iterator[_Use]:
    for call in function.calls:
        for guard in call.guards:
            if guard.form == "if" and _compares_with_best(guard):
                made = of_one_part(graph, guard.value, loaders)
                if made and not _inside(function, call.order, loaders[made]):
                    place = Place(file=guard.file, line=guard.line, column=1, function=function.place.function)
                    yield place, "compared", Value(text=guard.test, origins=guard.value.origins), made, ""
        written = call.does == "write" and any(guard.by_rank for guard in call.guards)
        if (written or call.does in {"print", "log"}) and not _named_local(call):
            for argument in call.arguments:
                made = of_one_part(graph, argument.value, loaders)
                if made and not _inside(function, call.order, loaders[made]) and not _is_a_sample(argument.value):
                    how = (
                        "printed"
                        if call.does == "print"
                        else f"logged by {short(call)}"
                        if not written
                        else "written to a file"
                    )
                    yield call.place, how, argument.value, made, call.target


def _is_a_sample(value: Value) -> bool:
    """Whether a value is of one batch that the program takes to show it: `next(iter(loader))`."""
    return any("next(" in link.text for origin in value.origins for link in origin.why)


def _compares_with_best(guard: Guard) -> bool:
    """Whether a test compares a value with the best one, itself or in the line that gives its name: `better = loss < best`."""
    texts = (guard.test, *(link.text for origin in guard.value.origins for link in origin.why[:1]))
    return any("best" in text.lower() for text in texts) and any(_COMPARED.search(text) for text in texts)


def _named_local(call: Call) -> bool:
    if call.receiver is not None and call.receiver.may(*RANK_KINDS):
        return True
    return any(
        argument.value.may(*RANK_KINDS) or _NAMED_LOCAL.search(argument.value.text) for argument in call.arguments
    )


def _inside(function: Function, order: int, loops: list[tuple[str, int, int]]) -> bool:
    return any(function.id == owner and first < order <= last for owner, first, last in loops)

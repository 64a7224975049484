"""DDP744: gradients are clipped on some ranks only."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from ddpdoctor.analysis.training_code.all_ranks import guarded_with_caller
from ddpdoctor.analysis.training_code.branches import answered_elsewhere
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.local_values import own_test
from ddpdoctor.evidence.code_values import Origin
from ddpdoctor.evidence.training_code import Call, Function, Guard, Place
from ddpdoctor.messages.code_findings import code_finding, guarded, out_of, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP744",
    name="gradients-changed-on-one-rank",
    summary="gradients are changed under a test of the rank or of its own loss: the ranks step differently and weights part",
    severity=Severity.FAIL,
    remedy="clip on every rank: after the backward all ranks hold the same gradients",
    leads_to=("DDP505",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each line that changes gradients on some ranks."""
    for function, call in graph.calls("clip", "unscale", "change-gradient"):
        ranked = guarded_with_caller(graph, function, call)
        if ranked is not None and not answered_elsewhere(graph, *ranked):
            yield _finding(_what(call), call.place, ranked[2], ranked[2].by_rank, ranked[1].place.line)
        elif ranked is None and (found := own_test(graph, function, call.guards)) is not None:
            yield _finding(_what(call), call.place, *found)
        elif ranked is None and call.does == "change-gradient":
            yield from (
                _finding(_what(call), call.place, guard, why) for _, guard, why in _on_some_ranks(graph, function)
            )
    for function in graph.functions.values():
        changes = [change for change in function.changes if ".grad." in f"{change.key}."]
        for change in changes:
            if (guard := rank_guard(change.guards)) is not None:
                yield _finding(f"`{change.key}` gets another value, which", change.place, guard, guard.by_rank)
        for site, guard, why in _on_some_ranks(graph, function) if changes else ():
            yield _finding(f"{short(site)}, which sets `{changes[0].key}`,", site.place, guard, why)


def _on_some_ranks(graph: CallGraph, function: Function) -> Iterator[tuple[Call, Guard, Origin | None]]:
    """The calls of a function that changes gradients, on some ranks and between a backward and its step; the test, and why."""
    for caller, site in graph.callers.get(function.id, ()):
        backward, step = graph.once(("backward to step", caller.id), partial(_backward_to_step, caller))
        if not backward < site.order < step:
            continue
        guard = rank_guard(site.guards)
        found = (guard, guard.by_rank) if guard is not None else own_test(graph, caller, site.guards)
        if found is not None and (guard is None or not answered_elsewhere(graph, caller, site, guard)):
            yield site, *found


def _backward_to_step(function: Function) -> tuple[float, float]:
    """The orders of the first backward and of the last step of a function; nothing lies between where one is missing."""
    backwards = (call.order for call in function.calls if call.does == "backward")
    steps = (call.order for call in function.calls if call.does == "step")
    return min(backwards, default=math.inf), max(steps, default=-math.inf)


def _what(call: Call) -> str:
    """What changes the gradients, as the subject of a sentence."""
    return f"`{call.text}` gets another value, which" if short(call) == "__setitem__" else short(call)


def _finding(what: str, place: Place, guard: Guard, why: Origin | None, line: int = 0) -> Finding:
    """`line` is the one under the test, where it is not that of `place`."""
    return code_finding(
        RULE,
        f"{what} changes the gradients {guarded(guard)}: the ranks step differently, and their weights part",
        place,
        because=why,
        remedy=out_of(guard, line or place.line),
    )

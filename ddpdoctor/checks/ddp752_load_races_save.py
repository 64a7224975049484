"""DDP752: all ranks load a checkpoint while one rank is still writing it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph, rank_guard
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages.code_findings import code_finding, guarded
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP752",
    name="load-races-save",
    summary="one rank saves, all ranks load the same file, and nothing makes them wait in between",
    severity=Severity.FAIL,
    remedy="call `dist.barrier()` on every rank between the save and the load",
    leads_to=("DDP401",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each load of a file that one rank has just saved."""
    for function in graph.functions.values():
        saves = [(call, guard) for call in function.calls if call.does == "save" and (guard := rank_guard(call.guards))]
        for save, guard in saves:
            path = _path(save, 1)
            for load in function.calls:
                if load.does != "load" or load.order < save.order or not path or _path(load, 0) != path:
                    continue
                if rank_guard(load.guards) or _waits(graph, function, save, load) or _elsewhere(load, guard):
                    continue
                yield code_finding(
                    RULE,
                    f"all ranks load {path}, which one rank saves {guarded(guard)} in line {save.place.line}: nothing makes "
                    "them wait until it is written",
                    load.place,
                    save.place,
                    because=guard.by_rank,
                    remedy=f"put `dist.barrier()` between line {save.place.line} and line {load.place.line}",
                )
                break


def _path(call: Call, position: int) -> str:
    given = call.argument("f", position)
    return (given.constant or given.text) if given is not None else ""


def _waits(graph: CallGraph, function: Function, save: Call, load: Call) -> bool:
    return any(
        save.order < call.order < load.order and not rank_guard(call.guards)
        and (graph.leads_to_collective(call) is not None or call.does in {"collective", "forward", "backward"} or call.target)
        for call in function.calls
    )  # fmt: skip


def _elsewhere(load: Call, guard: Guard) -> bool:
    """Whether the load stands in the other branch, or behind an exit of the ranks that did not save."""
    return any(its.line == guard.line or its.by_rank for its in load.guards)

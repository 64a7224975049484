"""Loaders that each rank evaluates its own part of: what comes out of them is no value of the whole job."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.epochs import evaluates
from ddpdoctor.analysis.training_code.models_and_loaders import is_sharded, loaders_of
from ddpdoctor.evidence.code_values import Kind, Value
from ddpdoctor.evidence.training_code import Function, Loop


def evaluation_loaders(graph: CallGraph) -> dict[str, list[tuple[str, int, int]]]:
    """The sharded loaders that are only evaluated, with each loop over them: its function, first and last order."""
    found: dict[str, list[tuple[str, int, int]]] = {}
    evaluated: set[str] = set()
    trained: set[str] = set()
    for function in graph.functions.values():
        for loop in function.loops:
            for origin in loop.over.origins:
                if origin.kind is not Kind.LOADER or origin.made not in graph.made:
                    continue
                own_part = origin.note == "prepared" or is_sharded(graph, graph.made[origin.made][1])
                found.setdefault(origin.made, []).append((function.id, loop.order, loop.last_order))
                if evaluates(graph, function, loop) and own_part:
                    evaluated.add(origin.made)
                elif not own_part or _trains(graph, function, loop, origin.made):
                    trained.add(origin.made)
    only_evaluated = evaluated - trained
    return {made: loops for made, loops in found.items() if made in only_evaluated}


def _trains(graph: CallGraph, function: Function, loop: Loop, loader: str) -> bool:
    """Whether a loop over a loader is one of training: not one that shows a few samples beside the evaluation."""
    backwards = graph.calls_of(function, "backward")
    inside = any(loop.order < call.order <= loop.last_order for call in backwards)
    return inside or any(call.does == "backward" for _, call in graph.taken_by(loader))


def of_one_part(graph: CallGraph, value: Value, loaders: dict[str, list[tuple[str, int, int]]]) -> str:
    """The loader that a value was computed from on this rank alone; empty where it may be of the whole job."""
    if value.may(Kind.SHARED) or not value.may(Kind.LOCAL):
        return ""
    mine = [call.id for _, call in loaders_of(graph, value)]
    return mine[0] if mine and all(made in loaders for made in mine) else ""

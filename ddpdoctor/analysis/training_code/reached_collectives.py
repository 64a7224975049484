"""Which collectives a call leads to, through the functions of the program that it calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import (
    COLLECTIVE,
    asks_for_gradient,
    gradients_in,
    in_both_branches,
    is_collective,
)
from ddpdoctor.analysis.training_code.guards import unconditional
from ddpdoctor.evidence.training_code import Call, Function, Guard

DEEPEST = 6


@dataclass(frozen=True, slots=True)
class CallOfAllRanks:
    """A call that all ranks must make, and the calls of the program's functions that lead to it."""

    call: Call
    """The collective, or what stands for one."""
    through: tuple[Call, ...] = ()
    """The calls that lead to it, outermost first; empty where it stands in the function itself."""


def leads_to_collective(graph: CallGraph, call: Call) -> CallOfAllRanks | None:
    """The collective that a call is, or makes for certain; None where there is none."""
    if is_collective(call):
        return CallOfAllRanks(call)
    return _through(graph, call, DEEPEST)


def may_make(graph: CallGraph, function_id: str, name: str, depth: int = 3) -> bool:
    """Whether a function, or one that it calls, makes a collective of this name, whatever the tests around it."""
    function = graph.functions.get(function_id)
    if function is None or not depth:
        return False
    return any(
        (call.does in COLLECTIVE and call.name.rpartition(".")[2] == name)
        or (call.target and call.target != function_id and may_make(graph, call.target, name, depth - 1))
        for call in function.calls
    )


def _through(graph: CallGraph, call: Call, depth: int) -> CallOfAllRanks | None:
    """What a call makes for certain by the function of the program that it calls."""
    if not call.target or (inner := _collective_in(graph, call.target, depth)) is None:
        return None
    return CallOfAllRanks(inner.call, (call, *inner.through))


def _collective_in(graph: CallGraph, function_id: str, depth: int) -> CallOfAllRanks | None:
    """The first call that every rank must make once it calls a function, whatever the arguments."""
    reached = graph.once("collectives in functions", dict[str, "CallOfAllRanks | None"])
    if function_id not in reached:
        reached[function_id] = None  # for functions that call each other in a ring
        function = graph.functions.get(function_id)
        if function is not None and not function.guards and depth:
            reached[function_id] = next(_certain(graph, function, depth), None) or _around(graph, function, depth)
    return reached[function_id]


def _around(graph: CallGraph, function: Function, depth: int) -> CallOfAllRanks | None:
    """The first such call of a decorator of the program: what it puts around the function is called in its place."""
    for decorator in function.decorators:
        inside = graph.defined_in.get(decorator, [])
        for inner in inside if len(inside) == 1 else ():  # of several, not all are put around
            if (found := next(_certain(graph, inner, depth - 1), None)) is not None:
                return found
    return None


def _certain(graph: CallGraph, function: Function, depth: int) -> Iterator[CallOfAllRanks]:
    for call in function.calls:
        if not unconditional(_decisive(call), function):
            if is_collective(call) and in_both_branches(call, function):
                yield CallOfAllRanks(call)
        elif is_collective(call):
            yield CallOfAllRanks(call)
        elif (found := _through(graph, call, depth - 1)) is not None:
            yield found


def _decisive(call: Call) -> tuple[Guard, ...]:
    """The tests around a call that may end otherwise on another rank: whether a parameter has a gradient does not."""
    if gradients_in(call) is None:
        return call.guards
    return tuple(guard for guard in call.guards if not asks_for_gradient(guard))

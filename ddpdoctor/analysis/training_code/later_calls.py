"""What still comes in a function after somebody has left: collectives, or the backward of a wrapped model."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from operator import attrgetter

from ddpdoctor.analysis.training_code.call_graph import CallGraph, CallInFunction
from ddpdoctor.analysis.training_code.collective_calls import COLLECTIVE
from ddpdoctor.analysis.training_code.guards import inner_loops, unconditional
from ddpdoctor.analysis.training_code.models_and_loaders import forwards_of, loss_of
from ddpdoctor.analysis.training_code.reached_collectives import CallOfAllRanks, leads_to_collective
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind
from ddpdoctor.evidence.training_code import Call, Exit, Function, Guard, Loop

_FIGURE = re.compile(r"(?:loss|(?:total_|grad_|g)?norm)(?:\.(?:detach|clone|float)\(\))*")
_OF_A_NUMBER = ("torch.tensor(", "torch.as_tensor(")
"""How the text of a call begins that makes a tensor of a number."""
_REDUCE = ("all_reduce", "all_reduce_coalesced", "reduce_scatter", "reduce_scatter_tensor")


def after_exit(
    graph: CallGraph, function: Function, leave: Exit, guard: Guard
) -> tuple[Call, CallOfAllRanks | None] | None:
    """The first call that the ranks that stay make and the one that left does not; the collective that it leads to.

    None stands for the collective where the call is a backward of the wrapped model.
    """
    loop = next(inner_loops(function, leave.order), None)
    for call in function.calls:
        if not _comes(call, leave, loop) or _same_branch(call, guard) or not _plain(function, call, leave):
            continue
        reached = leads_to_collective(graph, call)
        if reached is not None:
            return call, reached
        if leads_to_backward(graph, call) is not None:
            return call, None
    return None


def after_end(graph: CallGraph, function: Function, depth: int = 3) -> tuple[Call, CallOfAllRanks | None] | None:
    """The first call that comes for certain where the function has ended, in the functions that call it."""
    for caller, site in graph.callers.get(function.id, ()) if depth else ():
        if not unconditional(site.guards, caller):
            continue
        for call in caller.calls:
            if call.order <= site.order or not unconditional(call.guards, caller):
                continue
            reached = leads_to_collective(graph, call)
            if reached is not None or leads_to_backward(graph, call) is not None:
                return call, reached
        if (found := after_end(graph, caller, depth - 1)) is not None:
            return found
    return None


def collective_before(graph: CallGraph, function: Function, guard: Guard) -> bool:
    """Whether the branch that leaves makes a collective itself, which may pair with the one that follows."""
    return any(_same_branch(call, guard) and leads_to_collective(graph, call) is not None for call in function.calls)


def needs_all(graph: CallGraph, function: Function, loop: Loop) -> tuple[Call, str] | None:
    """The first call in every turn of a loop that all ranks must make, and what it is, as a noun; None where there is none."""
    for call in function.calls:
        if loop.order not in call.loops or call.under("Join", ".join"):
            continue
        if leads_to_backward(graph, call) is not None:
            return call, "backward"
        reached = leads_to_collective(graph, call)
        if reached is not None and _in_every_turn(call, loop):
            return call, reached.call.name.rpartition(".")[2]
    return None


def _in_every_turn(call: Call, loop: Loop) -> bool:
    """Whether no test within the loop decides about a call."""
    return all(guard in loop.guards or guard.state or guard.form in {"main", "while"} for guard in call.guards)


def reduces_gradients(graph: CallGraph, call: Call) -> bool:
    """Whether a call is the backward of a loss that came through the wrapper."""
    loss = loss_of(graph, call) if call.does == "backward" else None
    if loss is None or call.under(".no_sync"):
        return False
    return any(
        forward.receiver is not None and forward.receiver.may(Kind.WRAPPED) for _, forward in forwards_of(graph, loss)
    )


def reduces_by_hand(graph: CallGraph, function: Function, backward: Call) -> bool:
    """Whether the step averages gradients or weights, or may do so, in a collective of its own after the backward."""
    averages = graph.once(
        ("averages", function.id),
        lambda: [
            call for call in function.calls if (call.does in COLLECTIVE or call.target) and _may_average(graph, call)
        ],
    )
    steps = graph.calls_of(function, "step")
    behind = bisect_right(steps, backward.order, key=attrgetter("order"))
    stepped = steps[behind].order if behind < len(steps) else backward.order
    return any(
        call.order > backward.order
        and backward.loops[-1:] == call.loops[: len(backward.loops)][-1:]
        and (call.order < stepped or not _gathers(graph, call))  # a gather behind the step is one of outputs
        for call in averages
    )


def _may_average(graph: CallGraph, call: Call) -> bool:
    """Whether a call leads to a collective that may be one of gradients."""
    reached = leads_to_collective(graph, call)
    if reached is not None and not reached.call.name.endswith("barrier") and not _is_of_figure(reached.call):
        return True
    return bool(call.target) and _may_reduce(graph, call.target, 3)


def _gathers(graph: CallGraph, call: Call) -> bool:
    """Whether all that a call is known to lead to is a gather."""
    reached = leads_to_collective(graph, call)
    gathers = reached is not None and "gather" in reached.call.name.rpartition(".")[2]
    return gathers and not (call.target and _may_reduce(graph, call.target, 3))


def _may_reduce(graph: CallGraph, function_id: str, depth: int) -> bool:
    """Whether a function, or one that it calls, makes a reduction that may be one of gradients, whatever the tests around it."""
    function = graph.functions.get(function_id) if depth else None
    return function is not None and any(
        (call.does in COLLECTIVE and call.name.rpartition(".")[2] in _REDUCE and not _is_of_figure(call))
        or (call.target != function_id and _may_reduce(graph, call.target, depth - 1))
        for call in function.calls
    )


def _is_of_figure(call: Call) -> bool:
    """Whether a collective is one of a loss or a norm, by its name or as a forward gave it, and of no gradient."""
    given = call.argument("tensor", 0)
    if given is None or "grad" in given.text.replace("grad_norm", ""):
        return given is not None and _FIGURE.fullmatch(given.text) is not None
    of_tensor = [
        one for one in given.origins if one.kind is not Kind.CONSTANT and one.kind not in RANK_KINDS
    ]  # and its device
    of_tensor = [one for one in of_tensor if not one.text.startswith(_OF_A_NUMBER)] or of_tensor
    given_by_forward = bool(of_tensor) and all(
        one.note in {"forward", "batch"} or one.text.startswith(_OF_A_NUMBER) for one in of_tensor
    )
    return _FIGURE.fullmatch(given.text) is not None or given_by_forward


def backwards_of(graph: CallGraph, function: Function) -> Sequence[Call]:
    """The calls of a function that are a backward through the wrapper, or make one for certain, as they are written."""
    return graph.once(
        ("backwards of", function.id),
        lambda: [
            call
            for call in function.calls
            if (call.does == "backward" or call.target) and leads_to_backward(graph, call) is not None
        ],
    )


def leads_to_backward(graph: CallGraph, call: Call) -> Call | None:
    """The backward through the wrapper that a call is, or makes for certain; None where there is none."""
    if reduces_gradients(graph, call):
        return call
    held = backward_in(graph, call.target)
    return held.call if held is not None else None


def backward_in(graph: CallGraph, function_id: str, depth: int = 3) -> CallInFunction | None:
    """The backward through the wrapper that a function, or one that it calls, makes for certain; None where there is none."""
    function = graph.functions.get(function_id) if depth else None
    if function is None or function.guards:
        return None
    return graph.once(("backward", function_id, depth), lambda: next(_backwards(graph, function, depth), None))


def _backwards(graph: CallGraph, function: Function, depth: int) -> Iterator[CallInFunction]:
    for call in function.calls:
        if not unconditional(call.guards, function):
            continue
        if reduces_gradients(graph, call):
            yield CallInFunction(function, call)
        elif (held := backward_in(graph, call.target, depth - 1)) is not None:
            yield held


def _comes(call: Call, leave: Exit, loop: Loop | None) -> bool:
    """Whether the call is still to come for those that stay: behind the exit, or in the next turn of the loop it leaves."""
    in_loop = loop is not None and loop.order < call.order <= loop.last_order
    if leave.form == "continue":
        return in_loop and call.order > leave.order
    if leave.form == "break":
        return in_loop
    return call.order > leave.order or in_loop


def _same_branch(call: Call, guard: Guard) -> bool:
    return any(its.line == guard.line and its.form == guard.form and its.branch == guard.branch for its in call.guards)


def _plain(function: Function, call: Call, leave: Exit) -> bool:
    """Whether those that stay make the call, whatever else is tested: some turn of a loop passes a test of its counter."""
    counters = {loop.head.split()[1] for loop in function.loops if loop.counts and loop.head.startswith("for ")}
    return all(
        guard.form in {"main", "after", "while"}
        or guard.state
        or guard in leave.guards
        or (bool(guard.names) and counters.issuperset(guard.names))
        for guard in call.guards
    )

"""The loops of training: what each turn does, in the order in which it runs, through the functions that it calls."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from operator import attrgetter

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.inlined_steps import DEEPEST, InlinedStep, turn_of, unfolded
from ddpdoctor.analysis.training_code.later_calls import reduces_gradients
from ddpdoctor.analysis.training_code.models_and_loaders import stepped
from ddpdoctor.evidence.training_code import Call, Function, Loop

_ORDER = attrgetter("order")


@dataclass(frozen=True, slots=True)
class TrainingTurn:
    """A loop around a backward of the wrapped model, or around the step of its optimizer."""

    function: Function
    """The function that the loop stands in."""
    loop: Loop
    """The loop."""
    steps: tuple[InlinedStep, ...]
    """What one turn does, in order."""
    single: bool
    """A turn makes one training step; else it is one over epochs."""


def training_turns(graph: CallGraph) -> tuple[TrainingTurn, ...]:
    """The training loops of all functions, in the order in which these were read; inner loops behind those around them."""
    return graph.once(
        "training turns",
        lambda: tuple(turn for function in graph.functions.values() for turn in _turns(graph, function)),
    )


def _turns(graph: CallGraph, function: Function) -> Iterator[TrainingTurn]:
    steps = sorted(trains_in(graph, function), key=_ORDER) if function.loops else []
    around = {order for call in steps for order in call.loops}
    for loop in function.loops:
        if loop.order in around:
            yield TrainingTurn(
                function, loop, turn_of(graph, function, loop), _is_single(graph, function, loop, _within(steps, loop))
            )


def trains_in(graph: CallGraph, function: Function) -> list[Call]:
    """The calls of a function that may lead to a backward of the wrapped model, or that step its optimizer."""
    own = [call for call in graph.calls_of(function, "step") if call.receiver and stepped(graph, call.receiver)]
    training = functions_that_train(graph)
    return [*own, *(call for call in function.calls if call.target in training or reduces_gradients(graph, call))]


def functions_that_train(graph: CallGraph) -> AbstractSet[str]:
    """The functions with a backward of the wrapped model, whatever the tests around it, and those that call these."""

    def find() -> AbstractSet[str]:
        found = {function.id for function, backward in graph.calls("backward") if reduces_gradients(graph, backward)}
        for _ in range(DEEPEST):
            found |= {caller.id for each in found for caller, _ in graph.callers.get(each, ())}
        return found

    return graph.once("functions that train", find)


def _is_single(graph: CallGraph, function: Function, loop: Loop, steps: Sequence[Call]) -> bool:
    """Whether a turn of a loop makes one step, itself or with an inner loop over micro-batches."""
    steps = [call for call in steps if not _makes_many_steps(graph, call.target) or reduces_gradients(graph, call)]
    if any(call.loops[-1:] == (loop.order,) for call in steps):
        return True
    optimizer = any(
        call.loops[-1:] == (loop.order,) and call.receiver is not None and "opt" in call.receiver.text
        for call in _within(_steps(graph, function), loop)
    )
    return optimizer and any(loop.order in call.loops for call in steps)


def _makes_many_steps(graph: CallGraph, function_id: str, depth: int = DEEPEST) -> bool:
    """Whether a function has a loop around the step of an optimizer, in it or in a function that it calls."""
    function = graph.functions.get(function_id) if depth else None
    return function is not None and any(
        _steps_inside(graph, call, depth - 1) if call.loops else _makes_many_steps(graph, call.target, depth - 1)
        for call in function.calls
        if call.does == "step" or call.target
    )


def _steps_inside(graph: CallGraph, call: Call, depth: int) -> bool:
    """Whether a call is the step of an optimizer, or one of a function that makes a backward and such a step."""
    if call.does == "step":
        return call.receiver is not None and "sched" not in call.receiver.text
    inner = graph.functions.get(call.target) if depth and call.target in functions_that_train(graph) else None
    return inner is not None and any(
        _steps_inside(graph, each, depth - 1) for each in inner.calls if each.does == "step" or each.target
    )


def behind(graph: CallGraph, function: Function, backward: Call, depth: int = 2) -> Iterator[Call]:
    """The backwards and the steps of optimizers that follow a backward, where the first functions around have a step.

    These are its own function, with those that it calls, and then the functions that call it.
    """
    if graph.calls_of(function, "step"):
        calls = graph.once(("behind", function.id), lambda: graph.calls_of(function, "backward", "step"))
        first = bisect_right(calls, backward.order, key=_ORDER)
        yield from (calls[number] for number in range(first, len(calls)))
        return
    later = [step for step in unfolded(graph, function) if step.first.order > backward.order]
    found = [step.item for step in later if type(step.item) is Call and step.item.does in {"backward", "step"}]
    yield from found
    around = graph.callers.get(function.id, ()) if depth and all(call.does != "step" for call in found) else ()
    outer = next((each for each in around if next_step(graph, *each, depth - 1) is not None), None)
    if outer is not None:
        yield from behind(graph, *outer, depth - 1)


def next_step(graph: CallGraph, function: Function, backward: Call, depth: int = 2) -> Call | None:
    """The first step of an optimizer that follows a backward; None where none does."""
    if steps := _steps(graph, function):
        number = bisect_right(steps, backward.order, key=_ORDER)
        return steps[number] if number < len(steps) else None
    return next((call for call in behind(graph, function, backward, depth) if call.does == "step"), None)


def _steps(graph: CallGraph, function: Function) -> list[Call]:
    """The steps of optimizers in a function, in order."""
    return graph.once(("steps", function.id), lambda: sorted(graph.calls_of(function, "step"), key=_ORDER))


def _within(calls: Sequence[Call], loop: Loop) -> Sequence[Call]:
    """Those of some calls, in order, that stand in a loop."""
    return calls[bisect_right(calls, loop.order, key=_ORDER) : bisect_right(calls, loop.last_order, key=_ORDER)]

"""What a function does in order, with the calls of the program's own functions that it makes put in their place."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from operator import attrgetter

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Value
from ddpdoctor.evidence.many_objects import in_large_numbers
from ddpdoctor.evidence.training_code import Call, Change, Function, Guard, Loop

DEEPEST = 3
_ORDER = attrgetter("order")
MOST_STEPS = 400  # of one function: generated code calls thousands


@in_large_numbers
@dataclass(frozen=True, slots=True)
class InlinedStep:
    """A call or a change, and the calls that lead to it."""

    item: Call | Change
    """What is done, as the facts about `owner` have it."""
    owner: Function
    """The function that it stands in."""
    call_path: tuple[Call, ...]
    """The calls that lead there from the function that was asked about, outermost first."""
    through: tuple[Function, ...] = ()
    """The functions that these calls call."""

    @property
    def guards(self) -> tuple[Guard, ...]:
        """The tests around it, and around the calls that lead to it."""
        return (*(guard for call in self.call_path for guard in call.guards), *self.item.guards)

    @property
    def left(self) -> tuple[Guard, ...]:
        """The tests under which a function that was called returned before it came there."""
        inner = [
            (function, at.order) for function, at in zip(self.through, (*self.call_path, self.item)[1:], strict=True)
        ]
        return tuple(
            guard
            for function, order in inner
            for leave in function.exits
            if leave.form == "return" and leave.order < order
            for guard in leave.guards
        )

    @property
    def all_guards(self) -> tuple[Guard, ...]:
        """All tests that decide whether it is reached: also those of decorators, and those behind which others returned."""
        return (*self.guards, *self.left, *(guard for function in self.through for guard in function.guards))

    @property
    def first(self) -> Call | Change:
        """What stands in the function that was asked about: the step itself, or the call that leads to it."""
        return self.call_path[0] if self.call_path else self.item

    @property
    def loops(self) -> tuple[int, ...]:
        """The loops of the function that was asked about that stand around it."""
        return self.first.loops if isinstance(self.first, Call) else ()

    def as_given(self, value: Value) -> Value:
        """What the calls give for a value of the step that is a parameter of its function; else the value itself."""
        for call, function in zip(reversed(self.call_path), reversed(self.through), strict=True):
            given = next((text for name, text in call.given if name == value.text), "")
            if not given or value.text in function.rebound:
                break
            value = Value(text=given)
        return value


def unfolded(graph: CallGraph, function: Function) -> tuple[InlinedStep, ...]:
    """The steps of a function and of those that it calls, in the order in which they are made."""

    def find() -> tuple[InlinedStep, ...]:
        found: list[InlinedStep] = []
        _unfold(graph, function, (), (), found)
        return tuple(found)

    return graph.once(("unfolded", function.id), find)


def turn_of(graph: CallGraph, function: Function, loop: Loop) -> tuple[InlinedStep, ...]:
    """The steps of one turn of a loop of a function, those of the functions that it calls among them."""
    found: list[InlinedStep] = []
    _unfold(graph, function, (), (), found, loop)
    return tuple(found)


def _unfold(
    graph: CallGraph,
    function: Function,
    call_path: tuple[Call, ...],
    through: tuple[Function, ...],
    found: list[InlinedStep],
    within: Loop | None = None,
) -> None:
    items = graph.once(("items", function.id), lambda: _in_order(function))
    first = bisect_right(items, within.order, key=_ORDER) if within is not None else 0
    for number in range(first, len(items)):
        item = items[number]
        if within is not None and item.order > within.last_order:
            return
        if len(found) >= MOST_STEPS:
            return
        found.append(InlinedStep(item, function, call_path, through))
        if isinstance(item, Call) and item.target and is_unfolded(graph, found[-1]):
            inner = graph.functions[item.target]
            _unfold(graph, inner, (*call_path, item), (*through, inner), found)


def _in_order(function: Function) -> list[Call | Change]:
    items: list[Call | Change] = [*function.calls, *function.changes]
    return sorted(items, key=_ORDER)


def is_unfolded(graph: CallGraph, step: InlinedStep) -> bool:
    """Whether the steps of the function that a step calls follow it."""
    call = step.item
    return (
        isinstance(call, Call)
        and call.target in graph.functions
        and len(step.call_path) < DEEPEST
        and all(other.target != call.target for other in step.call_path)
    )


def calls_in(steps: tuple[InlinedStep, ...], *does: str) -> list[tuple[int, InlinedStep, Call]]:
    """The calls for one of these purposes among steps, with their position; all calls where none is named."""
    return [
        (position, step, item)
        for position, step in enumerate(steps)
        if type(item := step.item) is Call and (not does or item.does in does)
    ]

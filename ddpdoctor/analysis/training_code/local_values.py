"""Values that are certainly different on each rank: a clock, a loss over the rank's own data, a draw from its own generator."""

from __future__ import annotations

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.seeds import drawn_apart
from ddpdoctor.evidence.training_code import Call, Function, Kind, Origin, Value

_OWN = frozenset({"clock", "queue", "simulation", "disk"})


def own_value(graph: CallGraph, function: Function, value: Value) -> Origin | None:
    """What makes a value in `function` differ between ranks for certain, or None."""
    if value.may(Kind.SHARED):
        return None
    local = [origin for origin in value.origins if origin.kind is Kind.LOCAL]
    for origin in local:
        if origin.made or origin.note in {"part", "length"}:
            continue
        drawn = origin.note == "draw" and drawn_apart(graph, function, _generator(origin))
        return origin if drawn or origin.note in _OWN else None
    return next((origin for origin in local if _of_this_rank(graph, origin)), None)


def _generator(origin: Origin) -> str:
    """The function that seeds the generator of a draw."""
    return "numpy.random.seed" if origin.text.startswith(("np.", "numpy.")) else "random.seed"


def _of_this_rank(graph: CallGraph, origin: Origin) -> bool:
    """Whether an object is a loss of the wrapper, or a batch that the wrapper is trained with."""
    _, call = graph.made.get(origin.made, (None, None))
    if call is not None and call.does == "loader" and graph.is_sharded(call):
        return True
    if call is not None and _trains_the_wrapper(graph, call):
        return True
    takers = graph.taken_by(origin.made) if origin.note != "batch" else ()
    return any(
        _trains_the_wrapper(graph, taker) and (origin.note != "item" or _inside_its_loop(function, taker, origin.made))
        for function, taker in takers
    )


def _inside_its_loop(function: Function, call: Call, item: str) -> bool:
    """Whether a call stands in the very loop that gives an item: what a list of names leads to elsewhere is no batch."""
    file, line, _ = item.rsplit(":", 2)
    return any(
        loop.order in call.loops and (loop.place.file, str(loop.place.line)) == (file, line) for loop in function.loops
    )


def _trains_the_wrapper(graph: CallGraph, call: Call) -> bool:
    wrapped = call.receiver is not None and call.receiver.may(Kind.WRAPPED, Kind.BARE) is not None
    return call.does == "forward" and wrapped and graph.trains(call)

"""Writes into the weights of a wrapped model, or into its optimizer's settings, that some ranks alone make."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.local_values import own_test
from ddpdoctor.analysis.training_code.models_and_loaders import stepped
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function, Guard

_COPIES = frozenset({"copy_", "set_", "__setattr__", "vector_to_parameters"})
"""The last names of calls after which weights are those that were given."""
_GIVES_TO_OTHERS = ("broadcast", "_broadcast", "_sync", "scatter")


@dataclass(frozen=True, slots=True)
class PartialWrite:
    """A write, or a call of the function that makes it, which some ranks leave out."""

    function: Function
    """The function with the test."""
    site: Call
    """The call under the test: the write itself, or the call of its function."""
    guard: Guard
    """The test."""
    because: Origin
    """The rank, or the value of this rank, that the test depends on."""


def left_out(graph: CallGraph, function: Function, write: Call) -> Iterator[PartialWrite]:
    """Where some ranks leave a write out: by a test around it, or around a call of its function."""
    sites = graph.callers.get(function.id, ())
    for at, call in [(function, write), *sites]:
        guard = rank_guard(call.guards)
        rank = guard.by_rank if guard is not None else None
        found = (guard, rank) if guard is not None and rank is not None else own_test(graph, at, call.guards)
        if found is not None and not _made_elsewhere(graph, at, call, found[0]):
            yield PartialWrite(at, call, *found)
            if call is write:
                return


def settings_of_wrapped(graph: CallGraph, write: Call) -> bool:
    """Whether a write is into the settings of an optimizer of a wrapped model's parameters."""
    given = write.receiver
    made = [graph.made[one] for one in given.made if one in graph.made] if given is not None else []
    return bool(made) and all(stepped(graph, Value(origins=_as_optimizer(call))) for _, call in made)


def _as_optimizer(call: Call) -> tuple[Origin, ...]:
    return (Origin(kind=Kind.OBJECT, made=call.id, note=call.does),)


def wrapped_weights(graph: CallGraph, function: Function, write: Call) -> Origin | None:
    """The wrapped model that a write is into for certain; None of other models, and before it is wrapped."""
    origins = write.receiver.origins if write.receiver is not None else ()
    wrapped = [one for one in origins if _is_wrapped(graph, function, write, one)]
    return wrapped[0] if wrapped and len(wrapped) == len(origins) else None


def _is_wrapped(graph: CallGraph, function: Function, write: Call, origin: Origin) -> bool:
    made = graph.made.get(origin.made)
    if origin.kind in {Kind.WRAPPED, Kind.BARE}:
        return True
    if made is not None and made[1].does.startswith("wrap-"):
        return True
    before = (call for call in graph.calls_of(function, "wrap-ddp") if call.order < write.order)
    inner = (call.argument("module", 0) for call in before)
    return any(given is not None and origin.made in given.made for given in inner)


def reaches_the_others(graph: CallGraph, found: PartialWrite) -> bool:
    """Whether a collective behind the write gives the other ranks its weights, or they come out of one."""
    if any(argument.value.may(Kind.SHARED) for argument in found.site.arguments):
        return True
    later = [call for call in found.function.calls if call.order > found.site.order]
    return any(call.does == "wrap-ddp" or _shares_weights(graph, call) for call in later)


def _shares_weights(graph: CallGraph, call: Call) -> bool:
    reached = leads_to_collective(graph, call)
    if reached is None:
        return False
    name = reached.call.name.rpartition(".")[2]
    given = reached.call.argument("tensor", 0)
    if name.startswith(_GIVES_TO_OTHERS) or given is None:
        return name != "barrier"
    return any(one.note == "parameters" for one in given.origins) or "param" in given.text or "weight" in given.text


def is_given_back(graph: CallGraph, found: PartialWrite) -> bool:
    """Whether the same ranks copy weights into the model twice: those of an average for a while, then its own again."""
    alike = [
        call
        for call in found.function.calls
        if any(_takes_the_same(its, found.guard) for its in call.guards)
        and _copies_weights(graph, found.function, call, 2)
    ]
    return len(alike) > 1 and any(call is found.site for call in alike)


def _copies_weights(graph: CallGraph, function: Function, call: Call, depth: int) -> bool:
    """Whether a call, or a function that it calls, puts given weights into a wrapped model."""
    if call.does == "load-state":
        return True
    if call.does == "write-weights":
        copies = call.name.rpartition(".")[2] in _COPIES
        return copies and wrapped_weights(graph, function, call) is not None
    inner = graph.functions.get(call.target) if depth else None
    return inner is not None and any(_copies_weights(graph, inner, each, depth - 1) for each in inner.calls)


def _made_elsewhere(graph: CallGraph, function: Function, call: Call, guard: Guard) -> bool:
    """Whether the ranks that a test sends another way may make such a write there, or all ranks set it anew behind."""
    mine = _writes(graph, call, 2)
    for other in function.calls:
        same = any(_takes_the_same(its, guard) for its in other.guards)
        if same or not mine & _writes(graph, other, 2):
            continue
        if any(its.line == guard.line or its.by_rank for its in other.guards):
            return True
        if "write-setting" in mine and other.order > call.order and own_test(graph, function, other.guards) is None:
            return True
    return False


def _takes_the_same(its: Guard, guard: Guard) -> bool:
    """Whether two tests let the same ranks pass."""
    return its == guard or (its.test, its.form) == (guard.test, guard.form) == (guard.test, "if")


def _writes(graph: CallGraph, call: Call, depth: int) -> frozenset[str]:
    if call.does in {"write-setting", "write-weights"}:
        return frozenset({call.does})
    inner = graph.functions.get(call.target) if depth else None
    return frozenset().union(*(_writes(graph, each, depth - 1) for each in inner.calls)) if inner else frozenset()

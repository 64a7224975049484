"""DDP752: all ranks load a checkpoint while one rank is still writing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import COLLECTIVE
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.evidence.code_values import Kind, Value
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

_END = 1 << 30  # behind everything in a function

_WAITS = COLLECTIVE | {"forward", "backward"}


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each load of a file that one rank has just saved."""
    for function in graph.functions.values():
        for save in _saves(graph, function):
            for load in _loads(graph, function):
                if load.at.order < save.at.order or not save.path or load.path != save.path:
                    continue
                if _waits(graph, function, save.at, load.at) or _elsewhere(load.at, save.guard):
                    continue
                yield code_finding(
                    RULE,
                    f"all ranks load {save.path.rpartition(': ')[2]}, which one rank saves {guarded(save.guard)} in line "
                    f"{save.call.place.line}: nothing makes them wait until it is written",
                    load.call.place,
                    save.call.place,
                    because=save.guard.by_rank,
                    remedy=f"put `dist.barrier()` between line {save.at.place.line} and line {load.at.place.line}",
                )
                break


@dataclass(frozen=True, slots=True)
class _Save:
    """A save on one rank: the call in the function that is looked at, and the save that it is or leads to."""

    at: Call
    call: Call
    path: str
    guard: Guard


@dataclass(frozen=True, slots=True)
class _Load:
    """A load on all ranks: the call in the function that is looked at, and the load that it is or leads to."""

    at: Call
    call: Call
    path: str


def _saves(graph: CallGraph, function: Function) -> Iterator[_Save]:
    for call in function.calls:
        guard = rank_guard(call.guards)
        if call.does == "save" and guard is not None:
            moved = _moved(function, call)
            yield (
                _Save(call, call, _path(call, 1), guard)
                if moved is None
                else _Save(moved, call, _path(moved, 1), guard)
            )
        inner = graph.functions.get(call.target)
        for save in inner.calls if inner is not None else ():
            own = (_of_one_rank(inner, save) if inner is not None else None) or guard
            if (
                save.does == "save"
                and own is not None
                and inner is not None
                and not _meets(graph, inner, save.order, _END)
            ):
                yield _Save(call, save, _path_of_all(call, inner, save, 1), own)


def _of_one_rank(function: Function, save: Call) -> Guard | None:
    """The test that picks one rank for a save: around it, or one that sent the other ranks out of the function before.

    A decorator may make all ranks wait behind the function.
    """
    left = (one for one in save.guards if one.form == "after" and one.by_rank and one.of_rank == "first")
    return rank_guard(save.guards) or (None if function.decorators else next(left, None))


def _moved(function: Function, save: Call) -> Call | None:
    """The call that gives a file its last name, where it is written under another: `os.replace(path + ".tmp", path)`."""
    written = _path(save, 1)
    return next(
        (
            call
            for call in function.calls
            if call.does == "move"
            and call.order > save.order
            and call.guards == save.guards
            and _path(call, 0) == written
        ),
        None,
    )


def _loads(graph: CallGraph, function: Function) -> Iterator[_Load]:
    for call in function.calls:
        if rank_guard(call.guards) is not None:
            continue
        if call.does == "load":
            yield _Load(call, call, _path(call, 0))
        inner = graph.functions.get(call.target)
        for load in inner.calls if inner is not None else ():
            if (
                load.does == "load"
                and not load.guards
                and inner is not None
                and not _meets(graph, inner, 0, load.order)
            ):
                yield _Load(call, load, _path_of_all(call, inner, load, 0))


def _meets(graph: CallGraph, function: Function, first: int, last: int) -> bool:
    """Whether the ranks may wait for each other in a part of a function."""
    return any(
        first < call.order < last and (graph.leads_to_collective(call) or call.target) for call in function.calls
    )


def _path_of_all(way: Call, function: Function, call: Call, position: int) -> str:
    """The path of a save or load in a function, as its caller would write it; empty where that is not known.

    It says the same in every function where it is a literal, a constant, or made of attributes of one class. Of a parameter
    it is what the call gives, or the only call of the function.
    """
    given = call.argument("f", position)
    if given is None:
        return ""
    asked = {name for name in function.parameters if name != "self" and re.search(rf"\b{name}\b", given.text)}
    if asked:
        return _with_arguments(way, function, given, asked)
    if "self." in given.text:
        return f"{function.id.rpartition('.')[0]}: {given.text}"
    return (given.constant or given.text) if given.constant or given.text.isupper() else ""


def _with_arguments(way: Call, function: Function, path: Value, asked: AbstractSet[str]) -> str:
    """A path with what a call gives in place of the function's parameters."""
    if asked & {*function.rebound} or path.text.endswith("..."):
        return ""
    given = {name: repr(text[1:-1]) if text[:1] in {"'", '"'} else text for name, text in way.given}
    if asked <= given.keys() and not any(text.endswith("...") for text in given.values()):
        text = re.sub(r"\b(?:" + "|".join(sorted(asked)) + r")\b", lambda found: given[found[0]], path.text)
        return f"{function.id.rpartition('.')[0]}: {text}" if "self." in path.text else text
    only = path.origins[0] if path.text in function.parameters and len(path.origins) == 1 else None
    return only.text if only is not None and only.kind in {Kind.UNKNOWN, Kind.CONSTANT} else ""


def _path(call: Call, position: int) -> str:
    given = call.argument("f", position)
    return (given.constant or given.text) if given is not None else ""


def _waits(graph: CallGraph, function: Function, save: Call, load: Call) -> bool:
    return any(
        save.order < call.order < load.order and (call.guards == save.guards or not rank_guard(call.guards))
        and (graph.leads_to_collective(call) is not None or call.does in _WAITS or _may_meet(graph, call.target, 3))
        for call in function.calls
    )  # fmt: skip


def _may_meet(graph: CallGraph, function_id: str, depth: int) -> bool:
    """Whether ranks may wait for each other in a function of the program, whatever the tests around it."""
    function = graph.functions.get(function_id)
    if function is None or not depth:
        return bool(function_id)
    return any(
        call.does in _WAITS or (call.target != function_id and _may_meet(graph, call.target, depth - 1))
        for call in function.calls
    )


def _elsewhere(load: Call, guard: Guard) -> bool:
    """Whether the load is in the other branch, or behind an exit of the ranks that did not save."""
    return any(its.line == guard.line or its.by_rank for its in load.guards)

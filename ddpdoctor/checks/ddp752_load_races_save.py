"""DDP752: all ranks load a checkpoint while one rank is still writing it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.collective_calls import COLLECTIVE
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.inlined_steps import InlinedStep, calls_in, is_unfolded, unfolded
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
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

_FILE = re.compile(r"\w\.\w{1,12}['\"]?$")
"""How the name of a file ends."""
_METHOD = re.compile(r"^[A-Za-z_]\w*(?:\.\w+)*\.\w+\([\w, .]*\)$")
"""A call of a method with names and numbers: `checkpoints.path(step)`."""
_WAITS = COLLECTIVE | {"forward", "backward"}


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each load of a file that one rank has just saved."""
    reported: set[str] = set()
    for function in graph.functions.values():
        steps = unfolded(graph, function)
        saves = list(_saves(graph, steps))
        for load in _loads(graph, steps) if saves else ():
            save = next((one for one in saves if _races(graph, steps, one, load)), None)
            if save is None or load.call.id in reported:
                continue
            reported.add(load.call.id)
            yield code_finding(
                RULE,
                f"all ranks load {load.path[1] or load.call.text}, which one rank saves {guarded(save.guard)} in line "
                f"{save.use.call.place.line}: nothing makes them wait until it is written",
                load.call.place,
                *(
                    [load.step.call_path[-1].place]
                    if load.step.call_path and load.step.owner is not save.use.step.owner
                    else []
                ),
                save.use.call.place,
                because=save.guard.by_rank,
                remedy=f"put `dist.barrier()` between line {save.use.step.first.place.line} and "
                f"line {load.step.first.place.line}",
            )


@dataclass(frozen=True, slots=True)
class _Use:
    """A save or a load of a file, among the steps of a function."""

    position: int
    step: InlinedStep
    call: Call
    path: tuple[str, str]
    """The class whose `self` is in it, or nothing, and the path as the function writes it that was asked about."""
    as_called: str = ""
    """The path with the object whose method it is in: `checkpoints.path(step)`; empty where it is not known."""
    names: frozenset[str] = frozenset()
    """The constants and options that the path is made of; empty where it is made of anything else, or names no file."""


@dataclass(frozen=True, slots=True)
class _Save:
    """A save that one rank makes alone."""

    use: _Use
    """The file that is written."""
    guard: Guard
    """The test that picks the rank."""


def _saves(graph: CallGraph, steps: tuple[InlinedStep, ...]) -> Iterator[_Save]:
    for position, step, call in calls_in(steps):
        if call.does != "save" or (guard := _of_one_rank(step)) is None:
            continue
        if any(_decorator_meets(graph, each) for each in step.through):
            continue
        at, last = _moved(steps, position, call) or (position, call.argument("f", 1))
        if (use := _use(at, step, call, last)) is not None:
            yield _Save(use, guard)


def _of_one_rank(step: InlinedStep) -> Guard | None:
    """The test that picks one rank for a save: around it, or one that sent the other ranks out of the function before."""
    inside = [guard for call in (*step.call_path, step.item)[1:] for guard in call.guards]
    decorated = [guard for function in step.through for guard in function.guards]
    left = (one for one in (*inside, *decorated) if one.form in {"after", "decorator"} and one.by_rank)
    return rank_guard(step.guards) or next((one for one in left if one.of_rank == "first"), None)


def _moved(steps: tuple[InlinedStep, ...], position: int, save: Call) -> tuple[int, Value | None] | None:
    """Where a file gets its last name that is written under another, and this name: `os.replace(path + ".tmp", path)`."""
    written = save.argument("f", 1)
    for at, step, call in calls_in(steps):
        given = call.argument("src", 0) if call.does == "move" else None
        if at > position and given is not None and written is not None and given.text == written.text:
            return (at, call.argument("dst", 1)) if step.item.guards == save.guards else None
    return None


def _loads(graph: CallGraph, steps: tuple[InlinedStep, ...]) -> Iterator[_Use]:
    for position, step, call in calls_in(steps):
        if call.does != "load" or any(guard.by_rank for guard in step.guards):
            continue
        inside = [guard for each in (*step.call_path, step.item)[1:] for guard in each.guards]
        guarded_inside = bool(inside) or any(each.guards or _decorator_meets(graph, each) for each in step.through)
        if not guarded_inside and (use := _use(position, step, call, call.argument("f", 0))) is not None:
            yield use


def _use(position: int, step: InlinedStep, call: Call, given: Value | None) -> _Use | None:
    """The use of a file; None where its path is not known."""
    path, names = _path(step, given), _names(given)
    as_called = _as_called(step, given)
    return _Use(position, step, call, path or ("", ""), as_called, names) if path or as_called or names else None


def _names(given: Value | None) -> frozenset[str]:
    """The constants and options that a path is made of, where nothing else is in it and one of them is the name of a file."""
    rest = [origin for origin in given.origins if origin.text != "None"] if given is not None else []
    if any(one.kind is not Kind.CONSTANT and one.note != "argument" for one in rest):
        return frozenset()
    texts = frozenset(one.text for one in rest)
    return texts if any(_FILE.search(text) for text in texts) else frozenset()


def _races(graph: CallGraph, steps: tuple[InlinedStep, ...], one: _Save, load: _Use) -> bool:
    """Whether a load of what a rank saves comes behind the save, and nothing makes the ranks wait in between."""
    save = one.use
    same = save.path == load.path if save.path[1] and load.path[1] else bool(save.names) and save.names == load.names
    return (
        save.position < load.position
        and (same or (save.as_called != "" and save.as_called == load.as_called))
        and not _exclude(one, load)
        and not any(_meets(graph, step, save) for step in steps[save.position + 1 : load.position])
    )


def _exclude(save: _Save, load: _Use) -> bool:
    """Whether the load is in another branch than the save, or behind an exit of the ranks that saved."""
    around = {guard.line: (guard.form, guard.branch) for guard in (*save.use.step.guards, save.guard)}
    branches = {guard.line: (guard.form, guard.branch) for guard in load.step.guards if guard.form != "main"}
    return any(around.get(line, branch) != branch for line, branch in branches.items())


def _meets(graph: CallGraph, step: InlinedStep, save: _Use) -> bool:
    """Whether the ranks may wait for each other in a step."""
    call = step.item
    if not isinstance(call, Call) or (rank_guard(step.guards) is not None and call.guards != save.call.guards):
        return False
    if is_unfolded(graph, step):  # what it calls follows among the steps
        return _decorator_meets(graph, graph.functions[call.target])
    return _waits(call) or leads_to_collective(graph, call) is not None or _may_meet(graph, call.target, 3)


def _waits(call: Call) -> bool:
    """Whether ranks may wait for each other in a call: the module inside of a wrapper runs without the other ranks."""
    bare = call.does == "forward" and call.receiver is not None and call.receiver.only(Kind.BARE) is not None
    return call.does in _WAITS and not bare


def _may_meet(graph: CallGraph, function_id: str, depth: int) -> bool:
    """Whether ranks may wait for each other in a function of the program, whatever the tests around it."""
    function = graph.functions.get(function_id)
    if function is None or not depth:
        return function is not None or _is_unread(graph, function_id)
    return _decorator_meets(graph, function) or any(
        _waits(call) or (call.target != function_id and _may_meet(graph, call.target, depth - 1))
        for call in function.calls
    )


def _is_unread(graph: CallGraph, function_id: str) -> bool:
    """Whether the file of a function was not read, or its functions are known: others do nothing that ranks meet in."""
    module = graph.modules.get(function_id.partition("::")[0])
    return bool(function_id) and (module is None or bool(module.functions))


def _decorator_meets(graph: CallGraph, function: Function) -> bool:
    """Whether a decorator of the program may make all ranks wait before or behind the function."""
    return any(_meets_inside(graph, decorator) for decorator in function.decorators)


def _meets_inside(graph: CallGraph, function_id: str) -> bool:
    """Whether ranks may wait for each other in a function that is defined in another, however deep."""
    inside = graph.defined_in.get(function_id, [])
    return any(_may_meet(graph, each.id, 3) or _meets_inside(graph, each.id) for each in inside)


def _path(step: InlinedStep, given: Value | None) -> tuple[str, str] | None:
    """The class whose `self` a path has in it, and the path as the function would write it that was asked about.

    It says the same in every function where it is a literal, a constant, or made of attributes of one class. In place of a
    parameter stands what the call gives.
    """
    if given is None:
        return None
    text, of = given.constant or given.text, ""
    for call, function in zip(reversed(step.call_path), reversed(step.through), strict=True):
        asked = {name for name in function.parameters if name != "self" and re.search(rf"\b{name}\b", text)}
        of = of or _owner(function, text)
        if asked:
            text = _substituted(call, function, asked, text) or _only(function, given)
            given = Value(text=text)
        elif not (of or given.constant or text.isupper()):
            return None
        if not text:
            return None
    return of or _owner(step.owner if not step.call_path else None, text), text


def _as_called(step: InlinedStep, given: Value | None) -> str:
    """A path that a method of one object gives, as the function would write it that was asked about; else empty."""
    text = given.text if given is not None and "(" in given.text and not given.text.endswith("...") else ""
    for call, function in zip(reversed(step.call_path), reversed(step.through), strict=True):
        asked = {name for name in function.parameters if name != "self" and re.search(rf"\b{name}\b", text)}
        text = _substituted(call, function, asked, text) if text and asked else text
        owner = call.text.partition("(")[0].rpartition(".")[0]
        if "self." in text and not owner:
            return ""
        text = re.sub(r"\bself\b", lambda _, owner=owner: owner, text)  # type: ignore[misc]
    return text if _METHOD.match(text) else ""


def _owner(function: Function | None, text: str) -> str:
    """The class of a method whose own attributes are in a text."""
    return function.id.rpartition(".")[0] if function is not None and "self." in text else ""


def _substituted(call: Call, function: Function, asked: set[str], text: str) -> str:
    """A path with what a call gives in place of the function's parameters; empty where that is not known."""
    given = {name: repr(each[1:-1]) if each[:1] in {"'", '"'} else each for name, each in call.given}
    if asked & {*function.rebound} or text.endswith("...") or not asked <= given.keys():
        return ""
    if any(each.endswith("...") for each in given.values()):
        return ""
    return re.sub(r"\b(?:" + "|".join(sorted(asked)) + r")\b", lambda found: given[found[0]], text)


def _only(function: Function, path: Value) -> str:
    """The one thing that every call of a function gives for the parameter that is its path; empty where that is not known."""
    one = path.origins[0] if path.text in function.parameters and len(path.origins) == 1 else None
    fixed = one is not None and path.text not in function.rebound and one.kind in {Kind.UNKNOWN, Kind.CONSTANT}
    return one.text if one is not None and fixed else ""

"""DDP726: a program with a process group wraps its model in nn.DataParallel."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.all_ranks import guarded_with_caller, on_all_ranks
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import rank_guard
from ddpdoctor.analysis.training_code.models_and_loaders import wraps_of
from ddpdoctor.evidence.code_values import RANK_KINDS, Kind
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP726",
    name="data-parallel-beside-ddp",
    summary="nn.DataParallel in a program with a process group: every rank uses every GPU, and nothing is reduced between ranks",
    severity=Severity.WARN,
    remedy="wrap the model in DistributedDataParallel alone, with `device_ids=[local_rank]`",
)

_MOST_CALLS = 3
"""Functions between the one that makes the process group and the one that wraps."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such wrapper that is always made once there is a process group."""
    for function, call in graph.calls("wrap-dp"):
        if (inner := _wrapper_inside(graph, call)) is not None and not call.guards:
            yield _finding(
                call,
                inner,
                f"the wrapper of line {inner.place.line} is wrapped in nn.DataParallel: every rank uses every GPU",
            )
            continue
        if (around := _wrapper_around(function, call)) is not None:
            line = around.place.line
            what = f"line {line} wraps in DDP what is wrapped in nn.DataParallel here: every rank uses every GPU"
            yield _finding(call, around, what)
            continue
        if _has_its_device(call):
            continue
        owner, way = _with_test(graph, function, call)
        if call.guards and any(leave.order < call.order for leave in function.exits):
            continue
        alone = _of_one_rank(way)
        chosen = any(not _asks_for_devices(guard) for guard in call.guards) and not _wrapped_again(function, call)
        if (chosen and not alone) or on_all_ranks(graph, owner) is not True:
            continue
        inits = (one for one in owner.calls if one.order < way.order and _needs_a_group(graph, one))
        first = next(inits, None) or _group_above(graph, owner) or _by_constructor(graph, owner)
        if first is not None:
            made = "wrapped one in DDP" if first.does == "wrap-ddp" else "made a process group"
            who, uses = ("one rank", "it uses") if alone else ("every rank", "each of them uses")
            message = f"{who} wraps a model in nn.DataParallel though line {first.place.line} {made}: {uses} every GPU"
            yield _finding(call, first, message)


def _finding(call: Call, first: Call, what: str) -> Finding:
    return code_finding(RULE, what, call.place, first.place)


def _has_its_device(call: Call) -> bool:
    """Whether DataParallel gets the one device of this rank: it then uses no other."""
    devices = call.argument("device_ids", 1)
    return devices is not None and devices.may(*RANK_KINDS) is not None


def _with_test(graph: CallGraph, function: Function, call: Call) -> tuple[Function, Call]:
    """Where one rank is picked for a call: around it, or around the only call of its function."""
    found = guarded_with_caller(graph, function, call) if all(map(_asks_for_devices, call.guards)) else None
    return (found[0], found[1]) if found is not None and _of_one_rank(found[1]) else (function, call)


def _of_one_rank(call: Call) -> bool:
    """Whether a test of the rank alone decides, behind which one rank goes on."""
    guard = rank_guard(call.guards)
    return (
        guard is not None
        and guard.of_rank == "first"
        and all(one is guard or one.form == "while" for one in call.guards)
    )


def _needs_a_group(graph: CallGraph, call: Call) -> bool:
    """Whether a call that is always made makes the process group, or wraps a model in DDP, which needs one."""
    return _initialises(graph, call) or (call.does == "wrap-ddp" and not call.guards)


def _group_above(graph: CallGraph, function: Function, calls: int = _MOST_CALLS) -> Call | None:
    """The call that makes the process group before a function is called, always, in a caller or further up."""
    for caller, site in graph.callers.get(function.id, ()) if calls else ():
        if not all(guard.form == "main" or _asks_for_devices(guard) for guard in site.guards):
            continue
        before = (one for one in caller.calls if one.order < site.order and _initialises(graph, one))
        found = next(before, None) or _group_above(graph, caller, calls - 1)
        if found is not None:
            return found
    return None


def _by_constructor(graph: CallGraph, method: Function) -> Call | None:
    """The call by which the constructor of a method's object makes the process group, always."""
    constructor = graph.functions.get(f"{method.id.rpartition('.')[0]}.__init__")
    calls = constructor.calls if constructor is not None and constructor is not method else ()
    return next((one for one in calls if _initialises(graph, one)), None)


def _wrapper_inside(graph: CallGraph, call: Call) -> Call | None:
    """The call that wrapped what DataParallel is given in DDP; None where that is no such wrapper."""
    module = call.argument("module", 0)
    wraps = wraps_of(graph, module) if module is not None and module.may(Kind.WRAPPED) else []
    return wraps[0][1] if wraps else None


def _wrapper_around(function: Function, call: Call) -> Call | None:
    """The call that wraps what DataParallel made in DDP wherever there are several ranks; None where there is none."""
    here = (call.place.file, call.place.line)
    for other in function.calls if not call.guards else ():
        module = other.argument("module", 0) if other.does == "wrap-ddp" else None
        chain = [link for origin in module.origins for link in origin.why] if module is not None else []
        taken = any((link.file, link.line) == here for link in chain)
        inside = module is not None and module.text.endswith(".module")
        if taken and not inside and all(guard.of_job for guard in other.guards):
            return other
    return None


def _wrapped_again(function: Function, call: Call) -> bool:
    """Whether every rank that takes the branch of the wrapper, and none of another number, then wraps in DDP as well."""
    later = (other for other in function.calls if other.does == "wrap-ddp" and other.order > call.order)
    inside = (
        other for other in later if other.guards == call.guards[: len(other.guards)] and other.loops == call.loops
    )
    return not any(guard.by_rank or guard.of_job for guard in call.guards) and next(inside, None) is not None


def _asks_for_devices(guard: Guard) -> bool:
    """Whether a test asks for the number of devices alone, which says nothing about a process group."""
    return (
        guard.form == "if"
        and guard.branch == 0
        and all(name.endswith(("device_count", "torch.cuda")) for name in guard.names)
    )


def _initialises(graph: CallGraph, call: Call) -> bool:
    """Whether a call makes the process group, or a function that it leads to does so before anything else is asked.

    That is the function that it calls, or what `with` calls of the object that it makes.
    """
    if call.guards or call.does == "init":
        return call.does == "init" and not call.guards
    entered = f"{call.target.removesuffix('__init__')}__enter__" if call.target.endswith(".__init__") else ""
    targets = (graph.functions.get(name) for name in (call.target, entered))
    return any(
        inner.does == "init" and not inner.guards and not any(leave.order < inner.order for leave in target.exits)
        for target in targets
        if target is not None
        for inner in target.calls
    )

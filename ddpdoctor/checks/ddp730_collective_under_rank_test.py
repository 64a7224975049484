"""DDP730: only some ranks make a call that all ranks must make."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.branches import (
    answered_by_another,
    answered_by_own_value,
    answered_elsewhere,
    may_be_made_by_others,
)
from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.guards import rank_guard, unconditional
from ddpdoctor.analysis.training_code.later_calls import leads_to_backward
from ddpdoctor.analysis.training_code.local_values import own_value
from ddpdoctor.analysis.training_code.models_and_loaders import (
    always_wrapped,
    forwards_of,
    has_buffers,
    loss_of,
    trains,
    wraps_of,
)
from ddpdoctor.analysis.training_code.reached_collectives import CallOfAllRanks, leads_to_collective
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages.code_findings import alike, code_finding, guarded, of_this_rank, short, through
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP730",
    name="collective-under-rank-test",
    summary="a collective stands in a branch that only some ranks take: those ranks wait for the others for ever",
    severity=Severity.FAIL,
    remedy="make the call on every rank, and leave only printing and saving under the test of the rank",
    leads_to=("DDP305",),
)

_CHOICES = frozenset({"if", "else", "and", "or"})

_GATHERED = ("FULL", "SHARDED")
"""The types of FSDP's state_dict for which ranks talk to each other; of LOCAL_STATE_DICT each takes its own part."""

_DIVIDES = (
    "FullyShardedDataParallelPlugin",
    "DeepSpeedPlugin",
    "fsdp_plugin=",
    "deepspeed_plugin=",
    "automatic_checkpoint_naming=",
)
"""What programs of Accelerate name in which `save_state` certainly needs all ranks."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each collective, or call that leads to one, under a test of the rank."""
    for function in graph.functions.values():
        if function.place.function in {"__enter__", "__exit__"}:
            continue
        seen: set[tuple[int, str]] = set()
        for call in (each for each in function.calls if each.guards or function.guards):
            guard = _guard(function, call)
            if guard is None or guard.by_rank is None:
                if (found := _by_own_value(graph, function, call)) is not None:
                    yield found
                continue
            reached = leads_to_collective(graph, call)
            if reached is not None and answered_by_another(graph, function, reached, guard):
                continue
            if reached is not None and not answered_elsewhere(graph, function, call, guard):
                if (guard.line, reached.call.id) not in seen:
                    seen.add((guard.line, reached.call.id))
                    yield _collective(graph, function, call, guard, reached)
            elif (
                reached is None
                and _gathers(graph, function, call)
                and not answered_elsewhere(graph, function, call, guard)
            ):
                yield _of_all(call, guard, "FSDP's state_dict gathers the parameters of all ranks")
            elif (forward := _forward(graph, call)) and not answered_elsewhere(graph, function, call, guard):
                seen.add((guard.line, "backward"))  # of what that forward gives
                yield _wrapped(call, guard, *forward)
            elif (guard.line, "backward") not in seen and (backward := _backward(graph, function, call, guard)):
                yield _collective(graph, function, call, guard, backward)


def _guard(function: Function, call: Call) -> Guard | None:
    found = rank_guard(call.guards)
    if found is not None:
        return found
    decorated = next((guard for guard in function.guards if guard.by_rank), None)
    return decorated if decorated is not None and unconditional(call.guards, function) else None


def _by_own_value(graph: CallGraph, function: Function, call: Call) -> Finding | None:
    """A collective that each rank calls or not by a value of its own, where no other branch makes it."""
    tests = (
        (guard, own_value(graph, function, guard.value))
        for guard in call.guards
        if guard.form in _CHOICES and guard.by_local
    )
    guard, origin = next(((guard, origin) for guard, origin in tests if origin is not None), (None, None))
    if guard is None or origin is None:
        return None
    reached = leads_to_collective(graph, call)
    if reached is not None and answered_by_own_value(graph, function, call, guard, origin):
        return None
    reached = reached or _backward(graph, function, call, guard)
    if reached is None:
        return None
    name = short(reached.call)
    called = f"{short(call)}() makes {name} ({reached.call.place.file}:{reached.call.place.line})"
    return code_finding(
        RULE,
        f"{called if reached.through else f'{name} is called'} {guarded(guard)}, which each rank decides by its own "
        f"{of_this_rank(origin)}: the ranks that take the branch wait for the others",
        call.place,
        because=origin,
        notes=through(reached.through[1:]) if reached.through else (),
        remedy=alike(guard, origin),
        measured={"collective": name},
    )


def _collective(graph: CallGraph, function: Function, call: Call, guard: Guard, reached: CallOfAllRanks) -> Finding:
    name = short(reached.call)
    way = through(reached.through[1:]) if reached.through else []
    place = f"{reached.call.place.file}:{reached.call.place.line}"
    called = f"{short(call)}() makes {name} ({place})" if reached.through else f"{name} is called"
    whole = name == "save_state" and not graph.any_program(function, _DIVIDES)
    waits = "the ranks that take the branch wait for the others, which never call it"
    return code_finding(
        RULE,
        f"{called} {guarded(guard)}: the random states of the others are not saved, and under FSDP and DeepSpeed {waits}"
        if whole
        else f"{called} {guarded(guard)}: {waits}",
        call.place,
        because=guard.by_rank,
        severity=Severity.WARN if whole else None,
        notes=way,
        remedy=f"call {short(call)}() on every rank: move it out of `if {guard.test}`"
        if guard.form != "decorator"
        else f"call it outside of the function that {guard.test} runs on one rank",
        measured={"collective": name},
    )


def _of_all(call: Call, guard: Guard, why: str) -> Finding:
    return code_finding(
        RULE,
        f"{call.text} stands {guarded(guard)}: {why}, and the others never call it",
        call.place,
        because=guard.by_rank,
        remedy=f"call it on every rank before `if {guard.test}`, and only save the result under the test",
        measured={"collective": "state_dict"},
    )


def _gathers(graph: CallGraph, function: Function, call: Call, depth: int = 2) -> bool:
    """Whether a call gathers the parts of a sharded model from all ranks, itself or in a function of the program."""
    kept = call.under("state_dict_type")
    if kept is not None and not any(word in kept.text for word in _GATHERED):
        return False
    target = graph.functions.get(call.target) if depth else None
    if target is not None and not target.guards:
        inner = (each for each in target.calls if unconditional(each.guards, target))
        return any(_gathers(graph, target, each, depth - 1) for each in inner)
    if call.does != "gather-state":
        return _is_fsdp_state(call)
    sharded = next(graph.calls_near(function, "wrap-fsdp"), None) is not None
    return sharded and graph.any_program(function, ("full_state_dict=",))


def _is_fsdp_state(call: Call) -> bool:
    if call.does != "state-dict" or call.receiver is None:
        return False
    origin = call.receiver.only(Kind.WRAPPED)
    return origin is not None and origin.note == "fsdp"


def _forward(graph: CallGraph, call: Call, depth: int = 2) -> tuple[Severity, Call] | None:
    """How bad a forward of the wrapper on some ranks is, and the forward: None where it makes no collective for certain."""
    target = graph.functions.get(call.target) if depth else None
    if target is not None and not target.guards:
        inner = (each for each in target.calls if unconditional(each.guards, target))
        return next((found for each in inner if (found := _forward(graph, each, depth - 1))), None)
    if call.does != "forward" or call.receiver is None or not always_wrapped(graph, call.receiver):
        return None
    wraps = [wrap for _, wrap in wraps_of(graph, call.receiver)]
    if any(_has_its_own_group(wrap) for wrap in wraps):
        return None
    if trains(graph, call):
        return Severity.FAIL, call
    models = [wrap.argument("module", 0) for wrap in wraps if _broadcasts(wrap)]
    buffers = any(model is not None and has_buffers(graph, model) for model in models)
    return (Severity.WARN, call) if buffers else None


def _backward(graph: CallGraph, function: Function, call: Call, guard: Guard) -> CallOfAllRanks | None:
    """The backward of the wrapped model that a call is, or makes, where those that the test sends another way make none."""
    backward = leads_to_backward(graph, call)
    if backward is None or may_be_made_by_others(function, "backward", guard):
        return None
    loss = loss_of(graph, backward)
    models = [forward.receiver for _, forward in (forwards_of(graph, loss) if loss is not None else ())]
    if any(_has_its_own_group(wrap) for model in models if model is not None for _, wrap in wraps_of(graph, model)):
        return None
    return CallOfAllRanks(backward, (call,) if backward is not call else ())


def _has_its_own_group(wrap: Call) -> bool:
    """Whether a wrapper reduces over a group that it is given: the ranks of the branch may be its members."""
    group = wrap.argument("process_group")
    return group is not None and group.constant != "None"


def _broadcasts(wrap: Call) -> bool:
    """Whether a wrapper broadcasts buffers before a forward, as it does unless it is told otherwise."""
    asked = wrap.argument("broadcast_buffers") or wrap.argument("forward_sync_buffers")
    return asked is None or asked.constant == "True"


def _wrapped(call: Call, guard: Guard, severity: Severity, forward: Call) -> Finding:
    why = (
        "its backward reduces gradients over all ranks"
        if severity is Severity.FAIL
        else "the wrapper broadcasts the model's buffers in every forward"
    )
    inner = f"{short(call)}() calls the wrapped model ({forward.place.file}:{forward.place.line})"
    what = "the wrapped model is called" if forward is call else inner
    return code_finding(
        RULE,
        f"{what} {guarded(guard)}: {why}, and the others never call it",
        call.place,
        because=guard.by_rank,
        severity=severity,
        remedy="call the module inside the wrapper there, `.module(...)`, or call the wrapper on every rank",
        measured={"collective": "forward"},
    )

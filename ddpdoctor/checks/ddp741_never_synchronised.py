"""DDP741: every forward runs under no_sync, so that gradients are never reduced."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.inlined_steps import MOST_STEPS, calls_in, unfolded
from ddpdoctor.analysis.training_code.later_calls import reduces_by_hand
from ddpdoctor.analysis.training_code.models_and_loaders import trains
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Change, Function
from ddpdoctor.messages.code_findings import code_finding, line_beside
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP741",
    name="never-synchronised",
    summary="every forward before the step runs under no_sync: gradients are never reduced, each rank trains alone",
    severity=Severity.FAIL,
    remedy="run the forward and backward of the last micro-batch outside of no_sync",
    leads_to=("DDP504",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function whose forwards all run under no_sync; info where only the backward does."""
    for function in graph.functions.values():
        if (step := _step(graph, function)) is None:
            continue
        if (found := _in_a_called_function(graph, function, step)) is not None:
            yield found
            continue
        forwards = [
            call for call in graph.calls_of(function, "forward") if _is_ddp_forward(call) and trains(graph, call)
        ]
        if not forwards:
            continue
        backwards = graph.calls_of(function, "backward")
        if any(reduces_by_hand(graph, function, call) for call in backwards):
            continue
        inside = [call for call in forwards if _off(call)]
        if len(inside) == len(forwards):
            yield _never(step, inside[0])
        elif switch := _switched_off(graph, function, forwards[0]) or _off_until_step(function, forwards):
            yield _off_for_good(step, forwards[0], switch)
        elif not inside and backwards and all(_off(call) for call in backwards):
            yield _saves_nothing(backwards[0])


def _step(graph: CallGraph, function: Function) -> Call | None:
    """The first step of an optimizer in a function, or in one that it calls, where no single call makes forwards, too."""
    if own := graph.calls_of(function, "step"):
        return own[0]
    own_forwards = any(_is_ddp_forward(call) for call in graph.calls_of(function, "forward"))
    if not own_forwards and next(graph.calls_near(function, "no-sync"), None) is None:
        return None
    calls = calls_in(unfolded(graph, function))
    if len(calls) >= MOST_STEPS:
        return None
    forwards = [at for _, at, call in calls if _is_ddp_forward(call) and trains(graph, call)]
    steps = [(at, call) for _, at, call in calls if call.does == "step"]
    through = {at.call_path[0].id for at in forwards if at.call_path}
    if not forwards or any(at.call_path and at.call_path[0].id in through for at, _ in steps):
        return None  # the function that is called has both
    if through and not all(at.call_path for at in forwards):
        return None
    return steps[0][1] if steps else None


def _in_a_called_function(graph: CallGraph, function: Function, step: Call) -> Finding | None:
    """The same where a function that is called makes the forwards: under no_sync, or with the synchronisation off."""
    if any(_is_ddp_forward(call) for call in graph.calls_of(function, "forward")):
        return None
    steps = unfolded(graph, function)
    forwards = [(at, call) for _, at, call in calls_in(steps) if _is_ddp_forward(call) and trains(graph, call)]
    backwards = [(at, call) for _, at, call in calls_in(steps) if call.does == "backward"]
    if not forwards or len(steps) == MOST_STEPS:
        return None
    if any(
        reduces_by_hand(graph, at.owner, call) or (at.call_path and reduces_by_hand(graph, function, at.call_path[0]))
        for at, call in backwards
    ):
        return None
    around = [next((one for one in (*at.call_path, call) if _off(one)), None) for at, call in forwards]
    if around[0] is not None and all(around):
        return _never(step, around[0])
    first, forward = forwards[0]
    switch = _switched_off(graph, first.owner, forward)
    before = switch is not None and switch.place.line < forward.place.line and switch.place.file == forward.place.file
    return _off_for_good(step, forward, switch) if switch is not None and before else None


def _switched_off(graph: CallGraph, function: Function, forward: Call) -> Change | None:
    """Where `require_backward_grad_sync` of the wrapper is switched off, in programs that never switch it on again."""
    changes = [
        change
        for each in graph.files.functions_near(function)
        for change in each.changes
        if change.key.endswith(".require_backward_grad_sync")
    ]
    mine = forward.receiver.made if forward.receiver is not None else frozenset()
    off = all(change.value.constant == "False" and _with_wrapper(graph, forward, change) for change in changes)
    return changes[0] if changes and off and changes[0].owner.made & mine else None


def _with_wrapper(graph: CallGraph, forward: Call, change: Change) -> bool:
    """Whether each test around a switch is one around the forward as well, or one under which the wrapper was made."""
    wraps = [graph.made[made][1] for made in change.owner.made if made in graph.made]
    around = {(guard.form, guard.branch, guard.test) for call in (forward, *wraps) for guard in call.guards}
    return all((guard.form, guard.branch, guard.test) in around for guard in change.guards)


def _off_until_step(function: Function, forwards: list[Call]) -> Change | None:
    """Where a function switches it off before its only forward, and on again no earlier than after all micro-batches."""
    changes = [change for change in function.changes if change.key.endswith(".require_backward_grad_sync")]
    step = next((call for call in function.calls if call.does == "step" and call.order > forwards[0].order), None)
    before = [change for change in changes if change.order < forwards[0].order]
    if len(forwards) != 1 or step is None or not before or len(forwards[0].loops) <= len(step.loops):
        return None
    last, receiver = before[-1], forwards[0].receiver
    off = last.value.constant == "False" and not last.guards
    same = receiver is not None and last.key.rpartition(".")[0] == receiver.text
    micro_batches = next(loop for loop in function.loops if loop.order == forwards[0].loops[-1])
    on = any(last.order < change.order <= micro_batches.last_order for change in changes)
    return last if off and same and not on else None


def _off_for_good(step: Call, forward: Call, switch: Change) -> Finding:
    return code_finding(
        RULE,
        f"`{switch.key} = {switch.value.text}` {_stays(switch)} before the step in "
        f"{line_beside(step.place, forward.place)}, which uses gradients of this rank alone",
        switch.place,
        forward.place,
        remedy=f"set `{switch.key} = True` for the forward and backward of the last micro-batch",
    )


def _stays(switch: Change) -> str:
    """That a switch leaves the synchronisation off, as a verb."""
    return "is not undone" if switch.value.text == "False" else "is False in every turn"


def _is_ddp_forward(call: Call) -> bool:
    if call.does != "forward" or call.receiver is None:
        return False
    origin = call.receiver.may(Kind.WRAPPED)
    return origin is not None and origin.note != "fsdp"


def _off(call: Call) -> bool:
    """Whether the wrapper's no_sync is always entered around the call."""
    context = call.under(".no_sync")
    return context is not None and context.plain


def _never(step: Call, forward: Call) -> Finding:
    context = forward.under(".no_sync")
    assert context is not None
    return code_finding(
        RULE,
        f"every forward runs under `{context.text}`: the step in {line_beside(step.place, forward.place)} uses gradients of "
        "this rank alone",
        replace(forward.place, line=context.line, column=1),
        forward.place,
        step.place,
        remedy=f"leave `{context.text}` for the last micro-batch: run its forward and backward outside of the block",
    )


def _saves_nothing(backward: Call) -> Finding:
    context = backward.under(".no_sync")
    assert context is not None
    return code_finding(
        RULE,
        f"only the backward runs under `{context.text}`: what counts is the forward, so that gradients are reduced all the same",
        backward.place,
        severity=Severity.INFO,
        remedy=f"put the forward under `{context.text}` as well, for all micro-batches but the last",
    )

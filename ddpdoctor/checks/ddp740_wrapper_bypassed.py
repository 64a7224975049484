"""DDP740: the training forward goes past the wrapper, so that gradients are never reduced."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.gradients import without_gradients
from ddpdoctor.analysis.training_code.later_calls import reduces_by_hand
from ddpdoctor.analysis.training_code.models_and_loaders import forwards_of, loss_of, parts_of
from ddpdoctor.analysis.training_code.several_ranks import runs_several
from ddpdoctor.analysis.training_code.training_turns import behind, next_step
from ddpdoctor.evidence.code_values import OF_TRAINER, Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function, Place
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP740",
    name="wrapper-bypassed",
    summary="the training forward calls the module inside the wrapper: gradients are never reduced, each rank trains alone",
    severity=Severity.FAIL,
    remedy="call the wrapped model in the training step; `.module` is for saving and for evaluation",
    leads_to=("DDP504",),
)


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each wrapper that the loss of a backward went past."""
    for function, backward in graph.calls("backward"):
        loss = loss_of(graph, backward)
        if loss is None or next_step(graph, function, backward) is None:
            continue
        forwards = [one for one in forwards_of(graph, loss) if not without_gradients(graph, *one)]
        if _reduced(graph, function, backward):
            continue
        found = list(_by_wrapper(graph, function, backward, _past(graph, function, backward, forwards)))
        if not found and not any(_wrapped(call) for _, call in forwards):
            found = list(_by_method(graph, function, backward, loss))
        yield from found
    yield from _in_trainers(graph)


def _reduced(graph: CallGraph, function: Function, call: Call, depth: int = 2) -> bool:
    """Whether gradients may be averaged by hand behind a backward: in its function, or in those around that make the step."""
    around = graph.callers.get(function.id, ()) if depth and not graph.calls_of(function, "step") else ()
    return reduces_by_hand(graph, function, call) or any(_reduced(graph, *each, depth - 1) for each in around)


def _past(
    graph: CallGraph, function: Function, backward: Call, forwards: list[tuple[Function, Call]]
) -> list[tuple[Function, Call]]:
    """Those of a loss's forwards that may go past a wrapper whose parameters the step updates."""
    others = {made for _, call in forwards if _wrapped(call) and call.receiver for made in call.receiver.made}
    if not others:
        return [one for one in forwards if not _left_alone(graph, function, backward, one[1])]
    return [
        (owner, forward)
        for owner, forward in forwards
        if owner.id == function.id and _stepped_beside(graph, function, backward, forward, others)
    ]


def _in_trainers(graph: CallGraph) -> Iterator[Finding]:
    """The steps of a Trainer of transformers that call the module inside of the wrapper that they are given."""
    for function, forward in graph.calls("forward"):
        bare = forward.receiver.only(Kind.BARE) if forward.receiver is not None else None
        if bare is None or bare.note != OF_TRAINER or without_gradients(graph, function, forward):
            continue
        if runs_several(graph, function, "transformers"):
            assert forward.receiver is not None
            yield code_finding(
                RULE,
                f"{forward.receiver.text} is called past the wrapper that the Trainer gives to {function.place.function}: "
                "gradients are never reduced, each rank trains alone",
                forward.place,
                remedy=f"call `{bare.text}` in place of `{forward.receiver.text}`",
            )


def _stepped_beside(
    graph: CallGraph, function: Function, backward: Call, forward: Call, wrapped: AbstractSet[str]
) -> bool:
    """Of a loss that goes through another model's wrapper, too: whether the next step updates what a bare forward used."""
    found = _bypassed(graph, function, forward) if "detach" not in forward.used else None
    return found is not None and found[1].id not in wrapped and found[1].id in _stepped(graph, function, backward)


def _left_alone(graph: CallGraph, function: Function, backward: Call, forward: Call) -> bool:
    """Whether all steps that follow update other models: a generator's loss goes through the discriminator, too."""
    bare = forward.receiver.only(Kind.BARE) if forward.receiver is not None else None
    wrap = graph.made.get(bare.made) if bare is not None else None
    inner = wrap[1].argument("module", 0) if wrap is not None else None
    if bare is None or inner is None or not inner.made:
        return False
    steps = itertools.takewhile(lambda call: call.does == "step", behind(graph, function, backward))
    updated = [_updated_by(graph, step) for step in steps]
    return bool(updated) and all(each and each.isdisjoint({bare.made, *inner.made}) for each in updated)


def _stepped(graph: CallGraph, function: Function, backward: Call) -> AbstractSet[str]:
    """What made the models whose parameters the next step updates; empty where that is not known."""
    step = next_step(graph, function, backward)
    return _updated_by(graph, step) if step is not None else frozenset()


def _updated_by(graph: CallGraph, step: Call) -> AbstractSet[str]:
    """What made the models whose parameters a step updates, also through a scaler; empty where that is not known."""
    given = step.argument("optimizer", 0)  # of a scaler; an optimizer is given a closure
    optimizer = given if given is not None and given.made else step.receiver
    made = [graph.made[each][1] for each in optimizer.made if each in graph.made] if optimizer is not None else []
    updated = made[0].argument("params", 0) if len(made) == 1 and made[0].does == "optimizer" else None
    return updated.made if updated is not None else frozenset()


def _by_wrapper(
    graph: CallGraph, function: Function, backward: Call, forwards: list[tuple[Function, Call]]
) -> Iterator[Finding]:
    """One finding for each wrapper; of other functions' forwards only where the backward's own has none."""
    reported: set[str] = set()
    for owner, forward in sorted(forwards, key=lambda one: one[0].id != function.id):
        if reported and owner.id != function.id:
            continue
        found = _bypassed(graph, owner, forward)
        if found is None or found[1].id in reported:
            continue
        inner, wrap, place = found
        reported.add(wrap.id)
        yield _finding(inner, wrap, place, backward)


def _finding(inner: str, wrap: Call, place: Place, backward: Call) -> Finding:
    return code_finding(
        RULE,
        f"{inner} is called past its wrapper, and its loss goes into the backward in line {backward.place.line}: "
        "gradients are never reduced, each rank trains alone",
        place,
        backward.place,
        notes=[f"the wrapper is made in {wrap.place.file}:{wrap.place.line}"],
        remedy=f"call the wrapped model in place of `{inner}`",
    )


def _wrapped(call: Call) -> bool:
    return call.receiver is not None and call.receiver.may(Kind.WRAPPED) is not None


def _bypassed(graph: CallGraph, function: Function, forward: Call) -> tuple[str, Call, Place] | None:
    """The model as written, its wrapper, and where it is called: of the module inside of a DDP wrapper for certain.

    Of `net.module if distributed else net`, too: where there is a wrapper, that is the module inside.
    """
    assert forward.receiver is not None
    bare = forward.receiver.may(Kind.BARE) if forward.receiver.only(Kind.BARE, Kind.MODEL) is not None else None
    wrapped = _wrapped_by(graph, function, bare) if bare is not None and bare.note != "fsdp" else None
    inner = wrapped.argument("module", 0) if wrapped is not None else None
    models = {one.made for one in forward.receiver.origins if one.kind is Kind.MODEL}
    if wrapped is not None and (not models or (inner is not None and models <= {*inner.made})):
        return forward.receiver.text, wrapped, forward.place
    model = forward.receiver.only(Kind.MODEL)
    if model is None or len({one.made for one in forward.receiver.origins if one.kind is Kind.MODEL}) != 1:
        return None
    for owner, wrap in graph.calls("wrap-ddp"):
        inner = wrap.argument("module", 0)
        if inner is None or model.made not in inner.made or len(inner.origins) != 1:
            continue
        file = owner.id.partition("::")[0]
        if any(file not in program.files for program in graph.programs(function)):
            continue
        same = owner.id == function.id
        if (same and wrap.order < forward.order) or not same:
            return forward.receiver.text, wrap, forward.place
    return None


def _by_method(graph: CallGraph, function: Function, backward: Call, loss: Value) -> Iterator[Finding]:
    """A loss that a method of the wrapped model makes of its layers, beside `forward`: `self.model.loss(batch)`."""
    files = {one.made.rsplit(":", 2)[0] for one in loss.origins if one.note == "forward"}
    ways = [
        one
        for one in function.calls
        if one.order < backward.order
        and one.loops == backward.loops
        and one.target.partition("::")[0] in files
        and not one.target.endswith(".__init__")
        and not without_gradients(graph, function, one)
    ]
    for wrap in [wrap for _, wrap in graph.calls_near(function, "wrap-ddp")] if ways else []:
        parts, updated = parts_of(graph, wrap), _stepped(graph, function, backward)
        way = next((one for one in reversed(ways) if one.target.rpartition(".")[0] in parts.classes), None)
        if way is not None and not (updated and updated.isdisjoint({wrap.id, *parts.made})):
            yield _finding(way.text.partition("(")[0], wrap, way.place, backward)
            return


def _wrapped_by(graph: CallGraph, function: Function, bare: Origin) -> Call | None:
    """The call that wrapped a model: of a framework's `prepare`, that which the model was given to."""
    if bare.note == "prepared":
        for _, call in graph.calls_near(function, "prepare"):
            if any(bare.made in argument.value.made for argument in call.arguments):
                return call
    made = graph.made.get(bare.made)
    return made[1] if made is not None else None

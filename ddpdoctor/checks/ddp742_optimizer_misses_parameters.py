"""DDP742: parameters change after the wrapper was made, which does not know of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.inlined_steps import InlinedStep, calls_in, unfolded
from ddpdoctor.analysis.training_code.models_and_loaders import holds, parts_of
from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.evidence.training_code import Call, Change, Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP742",
    name="optimizer-misses-parameters",
    summary="parameters are replaced or unfrozen after the wrapper or the optimizer was made, which do not know of them",
    severity=Severity.FAIL,
    remedy="change the model first, then wrap it, then make the optimizer",
    leads_to=("DDP518", "DDP503"),
)

_BY_NAME = re.compile(r"\.(?:startswith|endswith)\(|^(?:not )?\(?[\"'][^\"']*[\"'] (?:not )?in \w+\)?$")
"""A test of a parameter's name: `name.startswith("head")`, `"head" in name`."""
_ALL = re.compile(r" in (?:self\.)?\w+(?:\.module)?\.(?:named_)?parameters\(\)$")

_TOLD = ("add_param_group",)
"""What tells an optimizer of parameters that came later."""
_TOLD_BY_HAND = ("param_groups", "__init__()")
"""What may put the parts of all parameters in the place of the whole ones."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each layer that is replaced, and each parameter that is unfrozen, too late."""
    for function in graph.functions.values():
        yield from _after_wrapper(function)
        yield from _in_a_later_call(graph, function)
        yield from _in_a_called_function(graph, function)
        yield from _after_optimizer(graph, function)
        yield from _sharded_later(graph, function)
        yield from _through_wrapper(graph, function)
        yield from _past_wrapper(graph, function)
        yield from _frozen(graph, function)


def _frozen(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Parameters that are reached through the wrapper and frozen, for good: DDP waits for their gradients."""
    mine = [each for each in function.changes if each.key.endswith(".requires_grad") and _freezes(each)]
    if not mine:
        return
    near = [
        other
        for each in graph.files.functions_near(function)
        for other in each.changes
        if other.key.endswith(".requires_grad")
    ]
    if any(not _freezes(other) for other in near) or graph.any_program(function, ("requires_grad_",)):
        return
    for change in mine:
        wrap = _wrapper_of(graph, change)
        if wrap is None or wrap.argument("find_unused_parameters") is not None or wrap.argument("**") is not None:
            continue
        if _is_whole(change):  # a teacher that is never trained
            continue
        if wrap.argument("static_graph") is None:
            yield code_finding(
                RULE,
                f"`{change.key} = {change.value.text}` freezes parameters after the wrapper was made in line "
                f"{wrap.place.line}, which waits for their gradients: the second step raises",
                change.place,
                wrap.place,
                remedy="freeze them before the model is wrapped, or wrap it anew",
            )
            return


def _freezes(change: Change) -> bool:
    """Whether parameters are frozen: all that are gone over, or those whose name fails a test."""
    return change.value.constant == "False" or _BY_NAME.search(change.value.text) is not None


def _is_whole(change: Change) -> bool:
    """Whether all parameters of a model are frozen: the loop goes over them, and no test picks some."""
    over = next((link.text for origin in change.owner.origins for link in origin.why[:1]), "")
    return change.value.constant == "False" and not change.guards and _ALL.search(over) is not None


def _after_wrapper(function: Function) -> Iterator[Finding]:
    wraps = [call for call in function.calls if call.does == "wrap-ddp"]
    if not wraps:
        return
    frozen = any(change.key.endswith(".requires_grad") and change.value.constant != "True" and change.order > wraps[0].order
                 for change in function.changes)  # fmt: skip
    wrap = wraps[-1]
    for change in function.changes:
        if change.order < wrap.order:
            continue
        if change.key.endswith(".requires_grad"):
            if change.value.constant == "True" and not frozen:
                yield _finding(change, wrap, f"`{change.key} = True` unfreezes parameters", "leaves out")
        elif change.value.may(Kind.MODEL) and _is_part(change, wrap):
            yield _finding(change, wrap, _what(change), "does not reduce")
            break


def _in_a_later_call(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Layers that a function replaces which is only called once another has wrapped the model."""
    if graph.calls_of(function, "wrap-ddp"):
        return
    layers = [
        each
        for each in function.changes
        if each.value.may(Kind.MODEL)
        and not each.key.endswith((".requires_grad", ".module"))
        and (each.owner.made or each.owner.text == "self")
    ]
    wraps = list(graph.calls_near(function, "wrap-ddp")) if layers else []
    for change in layers:
        own = [one for one in wraps if _is_part(change, one[1]) or _is_of_class(graph, function, change, one[1])]
        own = (
            own
            if len(wraps) == 1 or change.owner.text == "self"
            else [one for one in own if one[1].id in change.owner.made]
        )
        if len(own) == 1 and _comes_after(graph, function, *own[0]):
            yield _finding(change, own[0][1], _what(change), "does not reduce")
            return


def _in_a_called_function(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Layers that a method of the wrapped model adds, and parameters that a helper unfreezes, where they are called too late."""
    wraps = [call for call in function.calls if call.does == "wrap-ddp"]
    steps = [(step, step.item) for step in unfolded(graph, function) if step.call_path] if wraps else []
    changes = [(step, change) for step, change in steps if isinstance(change, Change)]
    for wrap in wraps:
        found = _too_late(changes, wrap, wraps)
        if found is not None:
            yield found
            return


def _too_late(changes: list[tuple[InlinedStep, Change]], wrap: Call, wraps: list[Call]) -> Finding | None:
    """What a called function changes in the model of a wrapper behind all wrappers; where there are several its name tells it."""
    alone, last = len(wraps) == 1, wraps[-1].order
    module = wrap.argument("module", 0)
    model = module.text if module is not None else ""
    frozen = {
        change.place
        for step, change in changes
        if _sets(step, "False") and step.first.order < wrap.order and (alone or _is_given(step, model))
    }
    later = [(step, change) for step, change in changes if step.first.order > last and _reaches_inside(step)]
    again = any(_sets(step, "False") for step, _ in later)
    for step, change in later:
        if _sets(step, "True") and change.place in frozen and not again:
            what, how = f"`{change.key} = True` unfreezes parameters", "leaves out"
        elif (
            alone
            and change.key.startswith("self.")
            and change.value.may(Kind.MODEL)
            and ".module." in step.call_path[-1].text
        ):
            what, how = _what(change), "does not reduce"
        else:
            continue
        return code_finding(
            RULE,
            f"{what} in {step.call_path[-1].text}, after the wrapper was made in line {wrap.place.line}, which {how} "
            "the gradients of what came later",
            step.first.place,
            change.place,
            wrap.place,
        )
    return None


def _is_given(step: InlinedStep, model: str) -> bool:
    """Whether a call of the path is given a model under this name, or a part of it."""
    given = {text for call in step.call_path for _, text in call.given}
    return any(text == model or text.startswith(f"{model}.") for text in given)


def _sets(step: InlinedStep, literal: str) -> bool:
    """Whether a step sets `requires_grad` to this literal, which a call may give."""
    change = step.item
    if isinstance(change, Call) or not change.key.endswith(".requires_grad"):
        return False
    return step.as_given(change.value).text == literal


def _reaches_inside(step: InlinedStep) -> bool:
    """Whether a call of the path goes to the module inside of a wrapper, or is given a part of it: `model.module.backbone`."""
    texts = [text for call in step.call_path for text in (call.text, *(given for _, given in call.given))]
    return any(".module." in text for text in texts)


def _after_optimizer(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Layers that are replaced between the optimizer and the wrapper: they are reduced, and never stepped."""
    if not graph.calls_of(function, "optimizer"):
        return
    if graph.any_program(function, _TOLD):
        return
    steps = unfolded(graph, function)
    optimizers = [(at, call) for at, _, call in calls_in(steps) if call.does == "optimizer"]
    wrapped = min((at for at, _, call in calls_in(steps) if call.does == "wrap-ddp"), default=len(steps))
    for at, step in enumerate(steps):
        change = step.item
        if isinstance(change, Call):
            continue
        before = [call for position, call in optimizers if position < at]
        if not before or len(before) < len(optimizers) or step.guards or step.left or at > wrapped:
            continue
        given = before[-1].argument("params", 0)
        if not change.value.may(Kind.MODEL) or given is None or not given.made & change.owner.made:
            continue
        verb = "complete" if change.adds else "replace"
        yield code_finding(
            RULE,
            f"{_what(change)} after the optimizer was made ({before[-1].place.file}:{before[-1].place.line}): "
            "the optimizer never updates the new layer",
            change.place,
            before[-1].place,
            remedy=f"{verb} `{change.key}` before the optimizer is made {_made_at(before[-1], change)}",
        )
        return


def _sharded_later(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Models whose parameters FSDP replaces by their parts when the optimizer has been given the whole ones."""
    optimizers = [call for call in function.calls if call.does == "optimizer"]
    if not optimizers or graph.any_program(function, (*_TOLD, *_TOLD_BY_HAND)):
        return
    steps = unfolded(graph, function)
    for at, step, wrap in calls_in(steps):
        module = wrap.argument("module", 0) if wrap.does == "wrap-fsdp" else None
        if module is None or wrap.argument("use_orig_params") is not None or step.guards or step.left:
            continue
        before = [one.item for one in steps[:at] if isinstance(one.item, Call) and one.item.does == "optimizer"]
        after = any(call.does == "optimizer" for _, _, call in calls_in(steps[at:]))
        given = before[-1].argument("params", 0) if before and not after else None
        if given is None or not given.made & module.made:
            continue
        yield code_finding(
            RULE,
            f"{wrap.text} replaces the parameters by their parts after the optimizer was made "
            f"({before[-1].place.file}:{before[-1].place.line}): the optimizer never updates the parts",
            wrap.place,
            before[-1].place,
            remedy="shard the model first, then make the optimizer",
        )
        return


def _through_wrapper(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Parameters that are reached through the wrapper, in another function than that which made it, and unfrozen there."""
    for change in function.changes:
        if not change.key.endswith(".requires_grad") or change.value.constant != "True":
            continue
        wrap = _wrapper_of(graph, change)
        if wrap is None or any(call.id == wrap.id for call in function.calls) or wrap.loops:
            continue
        others = [
            other
            for each in graph.files.functions_near(function)
            for other in each.changes
            if other.key.endswith(".requires_grad") and other.value.constant != "True"
        ]
        if others and not any(_wrapper_of(graph, other) for other in others):
            yield _finding(change, wrap, f"`{change.key} = True` unfreezes parameters", "leaves out")
            return


def _past_wrapper(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Parts of the model that was wrapped, frozen before that for the first epochs, and unfrozen in a later call."""
    mine = [each for each in function.changes if each.key.endswith(".requires_grad") and each.value.constant == "True"]
    wraps = list(graph.calls_near(function, "wrap-ddp")) if any(each.owner.made for each in mine) else []
    for change in mine:
        own = [one for one in wraps if holds(graph, parts_of(graph, one[1]), change.owner)]
        if len(own) != 1 or own[0][0].id == function.id or not _frozen_before(graph, function, *own[0]):
            continue
        if _comes_after(graph, function, *own[0]):
            yield _finding(change, own[0][1], f"`{change.key} = True` unfreezes parameters", "leaves out")
            return


def _frozen_before(graph: CallGraph, function: Function, owner: Function, wrap: Call) -> bool:
    """Whether parameters are frozen, and only before a wrapper is made: in its function, or where the model's class is made."""
    classes = parts_of(graph, wrap).classes
    frozen = [
        (each, other)
        for each in graph.files.functions_near(function)
        for other in each.changes
        if other.key.endswith(".requires_grad") and other.value.constant != "True"
    ]
    return bool(frozen) and all(
        (each.id == owner.id and other.order < wrap.order) or each.id.rpartition(".")[0] in classes
        for each, other in frozen
    )


def _what(change: Change) -> str:
    """What happens to a part of a model, as the subject and verb of a sentence."""
    if change.key.endswith(".*"):  # `setattr(model, name, layer)`
        return f"a layer of `{change.owner.text}` is replaced"
    return f"`{change.key}` gets another layer" if change.adds else f"`{change.key}` is replaced"


def _wrapper_of(graph: CallGraph, change: Change) -> Call | None:
    """The wrapper through which a parameter was reached, where there is no other way."""
    owner = change.owner.only(Kind.OBJECT)
    bare = change.owner.only(Kind.BARE)
    reached = bare if bare is not None else owner if owner is not None and owner.note == "parameters" else None
    made = graph.made.get(reached.made) if reached is not None else None
    return made[1] if made is not None and made[1].does == "wrap-ddp" else None


def _is_part(change: Change, wrap: Call) -> bool:
    """Whether the object that changes is the wrapped model, or the model inside."""
    inner = wrap.argument("module", 0)
    known = {wrap.id} | (inner.made if inner is not None else frozenset())
    first = change.key.partition(".")[0]
    return bool(change.owner.made & known) or (".module." in f".{change.key}." and first != "self")


def _is_of_class(graph: CallGraph, function: Function, change: Change, wrap: Call) -> bool:
    """Whether a method of the wrapped model's class, or of the class of one of its parts, changes its own object."""
    return change.owner.text == "self" and function.id.rpartition(".")[0] in parts_of(graph, wrap).classes


def _finding(change: Change, wrap: Call, what: str, how: str) -> Finding:
    return code_finding(
        RULE,
        f"{what} after the wrapper was made {_made_at(wrap, change)}, which {how} the gradients of what came later",
        change.place,
        wrap.place,
        remedy=f"move line {change.place.line} before line {wrap.place.line}, and make the optimizer behind both"
        if wrap.place.file == change.place.file
        else f"change the model before the wrapper is made {_made_at(wrap, change)}, and make the optimizer behind both",
    )


def _made_at(made: Call, change: Change) -> str:
    """Where an object was made, as a line of the file of the change or of another one."""
    same = made.place.file == change.place.file
    return f"in line {made.place.line}" if same else f"in {made.place.file}:{made.place.line}"


def _comes_after(graph: CallGraph, function: Function, owner: Function, call: Call, depth: int = 3) -> bool:
    """Whether all known calls of a function come after `call` of `owner`."""
    callers = graph.callers.get(function.id, ())
    return bool(callers) and all(
        _made_before(caller, site, function, owner, call)
        or (depth > 0 and caller.id != owner.id and _comes_after(graph, caller, owner, call, depth - 1))
        for caller, site in callers
    )


def _made_before(caller: Function, site: Call, function: Function, owner: Function, call: Call) -> bool:
    if caller.id == owner.id:
        return site.order > call.order
    same_class = owner.place.function == "__init__" and function.id.rpartition(".")[0] == owner.id.rpartition(".")[0]
    within = any(each.target == function.id for each in owner.calls)
    if any(each.target == owner.id and each.order > site.order for each in caller.calls):
        return False  # the model is wrapped anew
    return (same_class and not within) or any(
        each.target == owner.id and each.order < site.order and each.loops == site.loops[: len(each.loops)]
        for each in caller.calls
    )

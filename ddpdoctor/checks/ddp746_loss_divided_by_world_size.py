"""DDP746: the loss is divided by the world size, which DDP does already."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.frameworks import DOES_THE_DATA
from ddpdoctor.analysis.training_code.models_and_loaders import forwards_of, loss_of
from ddpdoctor.analysis.training_code.reached_collectives import leads_to_collective
from ddpdoctor.analysis.training_code.several_ranks import is_of_one_node
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import chain_places, code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP746",
    name="loss-divided-by-world-size",
    summary="the loss is divided by the world size before the backward: DDP averages gradients already, so they are too small",
    severity=Severity.WARN,
    remedy="leave the division out: DDP divides the sum of the gradients by the world size",
    leads_to=("DDP521",),
)

_LEAVES_LOSSES = frozenset({"accelerate", "fabric"})
"""Frameworks whose `backward` divides a loss by no number of ranks."""
_BY_HAND = ("no_sync", "register_comm_hook", "register_ddp_comm_hook")
"""What programs call in which DDP does not average every gradient."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each backward of a loss that holds this division, and each reduction of gradients by hand."""
    yield from _reduced_again(graph)
    yield from _divided_again(graph)
    yield from _given_back(graph)
    for function, backward in graph.calls("backward"):
        value = loss_of(graph, backward)
        if value is None or graph.any_program(function, DOES_THE_DATA - _LEAVES_LOSSES):
            continue
        divided = _divided(graph, function, value)
        if divided is None:
            continue
        wrapped = any(
            forward.receiver is not None and forward.receiver.may(Kind.WRAPPED)
            for _, forward in forwards_of(graph, value)
        )
        if wrapped:
            steps, at = chain_places(divided, backward.place), backward.place
            inside = _is_division(value.text) or not divided.why or divided.why[0].line == at.line
            yield code_finding(
                RULE,
                f"`{value.text}` is divided by the world size before its backward, and DDP divides the gradients by it again",
                *((at, *steps) if inside else (*steps[:1], at, *steps[1:])),
                because=divided,
            )


def _is_division(text: str) -> bool:
    return "/" in text or "*" in text


def _given_back(graph: CallGraph) -> Iterator[Finding]:
    """The losses that a framework makes the backward of, and that its step has divided by the world size."""
    for function in graph.functions.values():
        divided = _divided(graph, function, function.loss) if function.loss is not None else None
        if function.loss is None or divided is None:
            continue
        line, *rest = [*chain_places(divided, function.place), function.place]
        yield code_finding(
            RULE,
            f"{function.place.function} gives back a loss that is divided by the world size, and DDP divides its gradients by it "
            "again",
            line,
            *rest,
            because=divided,
        )


def _divided(graph: CallGraph, function: Function, loss: Value) -> Origin | None:
    """The world size that a loss is divided by; None where it is multiplied, too, or is that of all ranks."""
    kinds = {Kind.WORLD_SIZE, Kind.DEVICE_COUNT} if is_of_one_node(graph, function) else {Kind.WORLD_SIZE}
    sizes = [one for one in loss.origins if one.kind in kinds]
    multiplied = any(one.note != "divides" for one in sizes)
    return sizes[0] if sizes and not multiplied and not loss.may(Kind.SHARED) else None


def _divided_again(graph: CallGraph) -> Iterator[Finding]:
    """Gradients of the wrapper that are divided by the world size, where nothing sums them over the ranks."""
    for function in graph.functions.values():
        divisions = [
            *(
                (call.place, call.receiver, call.argument("", 0))
                for call in function.calls
                if call.arguments and short(call) in {"div_", "div"}
            ),
            *((change.place, change.owner, change.value) for change in function.changes if ".grad" in change.key),
        ]
        for place, gradients, by in divisions:
            size = by.only(Kind.WORLD_SIZE) if by is not None else None
            made = _wrapper_of(graph, gradients)
            if size is None or made is None or size.note not in {"", "divides"}:
                continue
            if any(leads_to_collective(graph, call) is not None for call in function.calls):
                continue  # it sums them first
            if any(_multiplied(call.receiver) for call in function.calls if call.does == "backward"):
                continue  # the loss is larger by the world size
            if graph.any_program(function, (*DOES_THE_DATA, *_BY_HAND)):
                continue
            yield code_finding(
                RULE,
                "DDP has averaged these gradients in the backward, and they are divided by the world size again",
                place,
                made.place,
                because=size,
                remedy="leave the division out: DDP averages the gradients of the model that it wraps",
            )
            break


def _multiplied(loss: Value | None) -> bool:
    """Whether a loss was multiplied by the world size."""
    return loss is not None and any(one.kind is Kind.WORLD_SIZE and one.note == "multiplies" for one in loss.origins)


def _changes_gradients(function: Function) -> bool:
    """Whether a function changes gradients itself, as a division of their sum does."""
    return any(".grad." in f"{change.key}." for change in function.changes) or any(
        call.does == "change-gradient" for call in function.calls
    )


def _wrapper_of(graph: CallGraph, gradients: Value | None) -> Call | None:
    """The wrapper through which gradients were reached."""
    origin = gradients.only(Kind.OBJECT) if gradients is not None else None
    made = graph.made.get(origin.made) if origin is not None and origin.note in {"gradients", "parameters"} else None
    return made[1] if made is not None and made[1].does == "wrap-ddp" else None


def _reduced_again(graph: CallGraph) -> Iterator[Finding]:
    """Gradients that are reached through the wrapper, and summed over the ranks once more; info where they are averaged."""
    for function, call in graph.calls("collective"):
        tensor = call.argument("tensor", 0)
        gradient = tensor.only(Kind.OBJECT) if tensor is not None and short(call) == "all_reduce" else None
        made = graph.made.get(gradient.made) if gradient is not None and gradient.note == "gradients" else None
        if gradient is None or made is None or made[1].does != "wrap-ddp" or call.argument("group") is not None:
            continue
        if graph.any_program(function, _BY_HAND):
            continue
        tests = [guard for guard in call.guards if guard.form != "while" or guard.by_rank or guard.by_local]
        if any("grad" not in guard.test or guard.by_rank or guard.by_local for guard in tests):
            continue
        if any(change.key.endswith("grad_sync") for each in graph.functions.values() for change in each.changes):
            continue
        divided = (
            any(
                _changes_gradients(each) for each in (function, *(way for way, _ in graph.callers.get(function.id, ())))
            )
            or len(call.arguments) > 1
        )
        yield code_finding(
            RULE,
            "DDP has averaged these gradients in the backward, and they are averaged once more: that costs a step's communication"
            if divided
            else "DDP has averaged these gradients in the backward, and they are summed over the ranks again: the step is too "
            "large by the number of ranks",
            call.place,
            made[1].place,
            severity=Severity.INFO if divided else None,
            remedy=f"leave {short(call)} out: DDP reduces the gradients of the model that it wraps",
        )

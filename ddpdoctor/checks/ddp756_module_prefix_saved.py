"""DDP756: keys with `module.` are saved, and the bare model loads them."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.messages.code_findings import code_finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP756",
    name="module-prefix-saved",
    summary="the wrapper's state_dict is saved, whose keys begin with `module.`, and the unwrapped model loads it",
    severity=Severity.INFO,
    remedy="save the module inside: `torch.save(ddp.module.state_dict(), path)`",
)
_STRIPS = ("consume_prefix_in_state_dict_if_present", "removeprefix", "replace", "lstrip", "startswith")


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each such save in a program that loads a file into the bare model strictly."""
    for function, save in graph.calls("save"):
        state = next((call for call in function.calls if _of_wrapper(call, save)), None)
        if state is None or graph.any_program(function, _STRIPS):
            continue
        load = next(
            (call for _, call in graph.calls_near(function, "load-state") if _into_bare(graph, function, call)), None
        )
        if load is not None:
            yield code_finding(
                RULE,
                f"{state.text} has keys that begin with `module.`, and {load.text} in line {load.place.line} loads into the "
                "model without its wrapper, which has none",
                state.place,
                load.place,
            )


def _of_wrapper(call: Call, save: Call) -> bool:
    if call.does != "state-dict" or call.receiver is None or not -12 <= call.place.line - save.place.line <= 3:
        return False
    origin = call.receiver.only(Kind.WRAPPED)
    return save.name == "torch.save" and call.order < save.order and origin is not None and origin.note != "fsdp"


def _into_bare(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether the receiver is a model before it is wrapped, and the keys come from a file."""
    given = call.argument("state_dict", 0)
    if (
        call.receiver is None
        or call.receiver.only(Kind.MODEL) is None
        or given is None
        or call.argument("strict", 1) is not None
    ):
        return False
    made = [graph.made[each][1] for each in given.made if each in graph.made]
    wrapped = {
        each
        for _, wrap in graph.calls_near(function, "wrap-ddp")
        if (inner := wrap.argument("module", 0))
        for each in _makers(inner)
    }
    classes = {
        _class_of(origin)
        for _, wrap in graph.calls_near(function, "wrap-ddp")
        if (inner := wrap.argument("module", 0))
        for origin in inner.origins
        if origin.kind is Kind.MODEL and _class_of(origin)
    }
    same = bool(_makers(call.receiver) & wrapped) or any(
        _class_of(origin) in classes for origin in call.receiver.origins
    )
    return any(each.does == "load" for each in made) and same


def _makers(model: Value) -> set[str]:
    """The places that made a model, whichever call of a function came there: each makes another model of one kind."""
    return {made.partition("@")[0] for made in model.made}


def _class_of(origin: Origin) -> str:
    """The class of the program that a model is an object of, or the full name of the function elsewhere that made it."""
    return origin.note if "::" in origin.note else origin.text if "." in origin.text and not origin.note else ""

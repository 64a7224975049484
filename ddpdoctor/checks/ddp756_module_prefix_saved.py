"""DDP756: keys with `module.` are saved, and the bare model loads them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Call, Function
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.code_findings import code_finding, line_beside
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
        state = next((call for call in _around(graph, function, save) if _of_wrapper(call, save)), None)
        load = _inside(graph, function) or _elsewhere(graph, function) if state is not None else None
        if state is not None and load is not None:
            yield code_finding(
                RULE,
                f"{state.text} has keys that begin with `module.`, and {load.text} in "
                f"{line_beside(load.place, state.place)} loads into the model without its wrapper, which has none",
                state.place,
                load.place,
            )


def _around(graph: CallGraph, function: Function, save: Call) -> list[Call]:
    """The state_dicts that a function takes in the lines around a save, as they are written."""
    by_line = graph.once(
        ("state_dicts by line", function.id),
        lambda: grouped((call.place.line, call) for call in graph.calls_of(function, "state-dict")),
    )
    around = (call for line in range(save.place.line - 12, save.place.line + 4) for call in by_line.get(line, ()))
    return sorted(around, key=attrgetter("order"))


def _of_wrapper(call: Call, save: Call) -> bool:
    if call.receiver is None:
        return False
    origin = call.receiver.only(Kind.WRAPPED)
    return save.name == "torch.save" and call.order < save.order and origin is not None and origin.note != "fsdp"


def _inside(graph: CallGraph, function: Function) -> Call | None:
    """A load of a file into the bare model in the programs that save it, where these change no keys."""
    if graph.any_program(function, _STRIPS):
        return None
    loads = (call for _, call in graph.calls_near(function, "load-state"))
    return next((call for call in loads if _into_bare(graph, function, call)), None)


def _into_bare(graph: CallGraph, function: Function, call: Call) -> bool:
    """Whether the receiver is a model before it is wrapped, and the keys come from a file."""
    inner = [model for _, wrap in graph.calls_near(function, "wrap-ddp") if (model := wrap.argument("module", 0))]
    wrapped = {each for one in inner for each in _makers(one)}
    return _loads_a_file(call) and (_is_of_class(call, inner) or bool(_makers(call.receiver) & wrapped))


def _elsewhere(graph: CallGraph, function: Function) -> Call | None:
    """A load of a file beside the programs into a model of the class that is wrapped, which is always saved with its wrapper."""
    inner = [model for _, wrap in graph.calls_near(function, "wrap-ddp") if (model := wrap.argument("module", 0))]
    saved = [state.receiver for _, state in graph.calls_near(function, "state-dict") if state.receiver is not None]
    if any(one.may(Kind.BARE) is not None for one in saved):
        return None
    loads = (call for module in graph.code.modules for call in module.loads)
    return next((call for call in loads if _loads_a_file(call) and _is_of_class(call, inner)), None)


def _loads_a_file(call: Call) -> bool:
    """Whether a model, and no wrapper, gets the keys that a file has."""
    given = call.argument("state_dict", 0)
    model = call.receiver.only(Kind.MODEL) if call.receiver is not None else None
    if model is None or given is None or call.argument("strict", 1) is not None:
        return False
    return any(one.kind is Kind.OBJECT and one.note == "load" for one in given.origins)


def _is_of_class(call: Call, inner: Sequence[Value]) -> bool:
    """Whether a model is an object of the class of one that is wrapped."""
    classes = {_class_of(one) for model in inner for one in model.origins if one.kind is Kind.MODEL and _class_of(one)}
    return call.receiver is not None and any(_class_of(origin) in classes for origin in call.receiver.origins)


def _makers(model: Value | None) -> set[str]:
    """The places that made a model, whichever call of a function came there: each makes another model of one kind."""
    return {made.partition("@")[0] for made in model.made} if model is not None else set()


def _class_of(origin: Origin) -> str:
    """The class of the program that a model is an object of, or the full name of the function elsewhere that made it."""
    return origin.note if "::" in origin.note else origin.text if "." in origin.text and not origin.note else ""

"""DDP745: gradients are clipped while they are still multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.inlined_steps import InlinedStep, calls_in, unfolded
from ddpdoctor.analysis.training_code.models_and_loaders import wraps_of
from ddpdoctor.evidence.code_values import Value
from ddpdoctor.evidence.training_code import Call, Function, Guard
from ddpdoctor.messages.code_findings import code_finding, short
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP745",
    name="clip-before-unscale",
    summary="gradients are clipped before the scaler has unscaled them: the threshold is wrong by the loss scale",
    severity=Severity.FAIL,
    remedy="call `scaler.unscale_(optimizer)` before clip_grad_norm_",
)

_OF_SCALING = ("amp", "scale", "fp16", "half", "precision", "mixed")
"""What is in the names of settings that ask for a run with or without scaling."""


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that scales, clips and steps without unscaling in between."""
    for function in graph.functions.values():
        clips = [call for call in function.calls if call.does == "clip" and call.name.startswith("torch.")]
        scales = [
            call for call in function.calls if call.does == "scale" and _is_scaler(call) and not _is_off(graph, call)
        ]
        if not clips:
            yield from _through_functions(graph, function)
            continue
        clip = clips[0]
        before = [call for call in scales if call.order < clip.order]
        step = _step(function, clip)
        if graph.any_program(function, ("get_scale",)):  # gradients may be divided by it
            continue
        if not before and not graph.any_program(function, ("unscale_", "unscale_gradients")):
            before = _scaled_elsewhere(graph, function, step)
        if not before or step is None or any(_unscales(call, clip) for call in function.calls):
            continue
        if _may_exclude(clip.guards, before[-1].guards):
            continue
        yield _finding(clip, before[-1], step)


def _through_functions(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Such a clip where the functions that are called one after the other scale, clip and step: each does a part."""
    if not any(graph.calls_near(function, "clip")) or graph.any_program(function, ("get_scale",)):
        return
    scaled: InlinedStep | None = None
    clipped: tuple[Call, InlinedStep, InlinedStep] | None = None
    for _, at, call in calls_in(unfolded(graph, function)):
        if call.does == "scale" and _is_scaler(call) and not _is_off(graph, call):
            scaled, clipped = at, None
        elif call.does == "unscale":
            scaled = None
            if clipped is not None and not _whenever(clipped[2], at):
                clipped = None
        elif call.does == "clip" and call.name.startswith("torch."):
            if scaled is not None and clipped is None and not _may_exclude((*at.guards, *at.left), scaled.guards):
                clipped = call, scaled, at
        elif call.does == "step" and _is_scaler(call):  # what comes behind it is of the next step
            if clipped is not None and _holds(graph, call, clipped[0]):
                scale = clipped[1].item
                assert isinstance(scale, Call)
                yield _finding(clipped[0], scale, call)
                return
            scaled = clipped = None


def _whenever(clip: InlinedStep, unscale: InlinedStep) -> bool:
    """Whether the gradients that are clipped are always unscaled later: in another branch, others are."""
    around = {(guard.test, guard.form, guard.branch) for guard in clip.guards}
    return all((guard.test, guard.form, guard.branch) in around for guard in unscale.guards)


def _holds(graph: CallGraph, step: Call, clip: Call) -> bool:
    """Whether the optimizer that steps may hold what is clipped."""
    given = step.argument("optimizer", 0)
    optimizers = [graph.made[made][1] for made in (given.made if given is not None else ()) if made in graph.made]
    held = [one.argument("params", 0) for one in optimizers if one.does == "optimizer"]
    theirs = {made for value in held if value is not None for made in _models(graph, value)}
    clipped = clip.argument("parameters", 0)
    mine = _models(graph, clipped) if clipped is not None else set()
    return not theirs or not mine or bool(theirs & mine)


def _models(graph: CallGraph, value: Value) -> set[str]:
    """The calls that made the model whose parameters these are: its wrapper, and the model inside."""
    found = {*value.made}
    for _, wrap in wraps_of(graph, value):
        inner = wrap.argument("module", 0)
        found |= {*inner.made} if inner is not None else set()
    return found


def _may_exclude(clip: Iterable[Guard], scale: Iterable[Guard]) -> bool:
    """Whether a test around the clip, which is not around the scaling, may ask for a run without scaling."""
    around = [guard for guard in scale if guard.form != "main"]
    same = {(guard.test, guard.form, guard.branch) for guard in around}
    names = {name for guard in around for name in guard.names}
    return any(
        (guard.test, guard.form, guard.branch) not in same
        and (not names.isdisjoint(guard.names) or any(word in guard.test.lower() for word in _OF_SCALING))
        for guard in clip
    )


def _finding(clip: Call, scale: Call, step: Call) -> Finding:
    scaler = scale.receiver.text if scale.receiver is not None else "scaler"
    optimizer = step.arguments[0].value.text if step.arguments else "optimizer"
    return code_finding(
        RULE,
        f"{short(clip)} clips gradients that `{scaler}.scale` has multiplied, and nothing unscales them before: the "
        "threshold is wrong by the loss scale",
        clip.place,
        scale.place,
        remedy=f"put `{scaler}.unscale_({optimizer})` before line {clip.place.line}"
        if _together(clip, step)
        else f"call `{scaler}.unscale_({optimizer})` of {step.place.function} ({step.place.file}:{step.place.line}) after the "
        f"backward, and before {clip.place.function} clips",
    )


def _together(clip: Call, step: Call) -> bool:
    """Whether both are in one function, so that the scaler's name means the same in front of the clip."""
    return (clip.place.file, clip.place.function) == (step.place.file, step.place.function)


def _is_scaler(call: Call) -> bool:
    return call.receiver is not None and any(origin.note == "scaler" for origin in call.receiver.origins)


def _is_off(graph: CallGraph, call: Call) -> bool:
    """Whether the scaler is made with `enabled=False`: it scales nothing."""
    makers = [graph.made[made][1] for made in (call.receiver.made if call.receiver else ()) if made in graph.made]
    given = [maker.argument("enabled") for maker in makers]
    return bool(given) and all(value is not None and value.text == "False" for value in given)


def _unscales(call: Call, clip: Call) -> bool:
    return call.does == "unscale" and call.order < clip.order


def _step(function: Function, clip: Call) -> Call | None:
    steps = [call for call in function.calls if call.does == "step" and call.order > clip.order and _is_scaler(call)]
    return steps[0] if steps else None


def _scaled_elsewhere(graph: CallGraph, function: Function, step: Call | None) -> list[Call]:
    """The scaling of the loss in another method, by the scaler that steps here."""
    made = step.receiver.made if step is not None and step.receiver is not None else frozenset()
    return [
        call
        for _, call in graph.calls_near(function, "scale")
        if call.receiver is not None and call.receiver.made & made and _is_scaler(call) and not _is_off(graph, call)
    ]

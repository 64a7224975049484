"""DDP745: gradients are clipped while they are still multiplied by the loss scale."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.training_code.call_graph import CallGraph
from ddpdoctor.analysis.training_code.unfolded import calls_in, unfolded
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


def check(graph: CallGraph) -> Iterator[Finding]:
    """One finding for each function that scales, clips and steps without unscaling in between."""
    for function in graph.functions.values():
        clips = [call for call in function.calls if call.does == "clip" and call.name.startswith("torch.")]
        scales = [call for call in function.calls if call.does == "scale" and _is_scaler(call)]
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
        scaled = {(guard.file, guard.line) for guard in before[-1].guards}
        if any(
            "amp" in guard.test or "scaler" in guard.test or "fp16" in guard.test
            for guard in clip.guards
            if (guard.file, guard.line) not in scaled
        ):
            continue
        yield _finding(clip, before[-1], step)


def _through_functions(graph: CallGraph, function: Function) -> Iterator[Finding]:
    """Such a clip where the functions that are called one after the other scale, clip and step: each does a part."""
    if not any(call.target for call in function.calls) or graph.any_program(function, ("get_scale",)):
        return
    steps = list(calls_in(unfolded(graph, function)))
    scaled = [(at, call) for at, _, call in steps if call.does == "scale" and _is_scaler(call)]
    for at, step, clip in steps:
        if (
            clip.does != "clip"
            or not clip.name.startswith("torch.")
            or any(_asks_for_amp(guard) for guard in step.guards)
        ):
            continue
        before = [call for position, call in scaled if position < at]
        after = next(
            (call for position, _, call in steps if position > at and call.does == "step" and _is_scaler(call)), None
        )
        last = max((position for position, call in scaled if position < at), default=0)
        unscaled = any(last < position < at and call.does == "unscale" for position, _, call in steps)
        if before and after is not None and not unscaled:
            yield _finding(clip, before[-1], after)
            return


def _asks_for_amp(guard: Guard) -> bool:
    return any(word in guard.test for word in ("amp", "scaler", "fp16", "scale"))


def _finding(clip: Call, scale: Call, step: Call) -> Finding:
    scaler = scale.receiver.text if scale.receiver is not None else "scaler"
    optimizer = step.arguments[0].value.text if step.arguments else "optimizer"
    return code_finding(
        RULE,
        f"{short(clip)} clips gradients that `{scaler}.scale` has multiplied, and nothing unscales them before: the "
        "threshold is wrong by the loss scale",
        clip.place,
        scale.place,
        remedy=f"put `{scaler}.unscale_({optimizer})` before line {clip.place.line}",
    )


def _is_scaler(call: Call) -> bool:
    return call.receiver is not None and any(origin.note == "scaler" for origin in call.receiver.origins)


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
        if call.receiver is not None and call.receiver.made & made and _is_scaler(call)
    ]

"""Gradients that each rank keeps for itself: the replicas train on, alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.gradients import GradientsNotReduced, NotReducedCause
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.messages.accumulation import decides_the_reduction
from ddpdoctor.messages.divergence import finding, some_of
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

RULE = Rule(
    code="DDP504",
    name="gradients-not-reduced",
    summary="gradients reach the optimizer without being averaged across ranks",
    severity=Severity.FAIL,
    shown_by="gradients of the ranks differ after backward: `ddpdoctor verify-sync`",
    remedy="build the model completely, then wrap it; call the wrapper for every forward; run one backward per forward",
    explains=("DDP503", "DDP507", "DDP509"),
    about_step=True,
)

Cause = NotReducedCause

WHY = {
    Cause.BYPASSED: "the model inside the wrapper was called, so DDP did not see the forward",
    Cause.NO_FORWARD: "backward ran, and no forward through the wrapper since the step before it, so DDP did not reduce",
    Cause.NO_SYNC: "the forward ran under no_sync, or with require_backward_grad_sync off, so the backward did not reduce",
    Cause.AGAIN: "backward ran more than once after one forward, and DDP reduces gradients in the first one only",
    Cause.NO_MODEL: "no model is wrapped in DistributedDataParallel, and nothing else averages them",
    Cause.AUTOGRAD_GRAD: "they were computed without .backward(), by torch.autograd.grad or by hand",
    Cause.ADDED: "they were added to the model after it was wrapped",
    Cause.REPLACED: "they replaced parameters of the wrapped model (load_state_dict(assign=True), a new layer, weight tying)",
    Cause.UNFROZEN: "they were frozen when the model was wrapped",
    Cause.IGNORED: "the model tells DDP to ignore them",
    Cause.BY_HOOK: "the communication hook averages them inside groups of ranks, and nothing averages them, or the weights, over "
    "all ranks",
    Cause.UNFINISHED: "DDP did not finish its reduction: hooks lost by a cast or move after wrapping, or unused parameters",
}

REMEDIES = {
    Cause.BYPASSED: "call the wrapper, model(x), and not model.module(x) or a method or part of it, wherever a backward follows",
    Cause.NO_FORWARD: "call the wrapper, model(x), for every forward, and not a method or a part of the model inside it; run one "
    "backward per forward",
    Cause.NO_SYNC: "run both the forward and the backward of the last micro-batch outside no_sync",
    Cause.AGAIN: "add the losses and call backward once after each forward",
    Cause.NO_MODEL: "all_reduce every gradient between backward and step and divide by the number of ranks, or wrap the model "
    "in DistributedDataParallel",
    Cause.AUTOGRAD_GRAD: "use loss.backward(), or average the gradients yourself with all_reduce",
    Cause.ADDED: "build the whole model, then wrap it",
    Cause.REPLACED: "load and change the model before wrapping it; load_state_dict without assign=True",
    Cause.UNFROZEN: "wrap the model again after requires_grad changes",
    Cause.IGNORED: "remove them from _ddp_params_and_buffers_to_ignore, or reduce them yourself",
    Cause.BY_HOOK: "average over all ranks in the hook. With post_localSGD_hook, step with PostLocalSGDOptimizer, whose averager "
    "makes the weights equal: its warmup_steps counts steps, and ends where start_localSGD_iter begins",
    Cause.UNFINISHED: RULE.remedy,
}

NOTES = {
    Cause.BYPASSED: "calls the module inside the wrapper, or a part of it",
    Cause.NO_FORWARD: "the backward",
    Cause.NO_SYNC: "the forward",
    Cause.AGAIN: "the last backward",
    Cause.NO_MODEL: "the optimizer step",
    Cause.AUTOGRAD_GRAD: "computes the gradients",
    Cause.ADDED: "",
    Cause.REPLACED: "",
    Cause.UNFROZEN: "",
    Cause.IGNORED: "makes DDP ignore them",
    Cause.BY_HOOK: "registers the communication hook",
    Cause.UNFINISHED: "the optimizer step",
}


def check(divergences: Divergences, code: SourceCode | None) -> Iterator[Finding]:
    """The first step whose gradients are the ranks' own, with the lines that decide so where a forward ran under no_sync."""
    for found in divergences.of(GradientsNotReduced):
        on = "" if len(found.ranks) == divergences.world_size else f" on {group_ranks(found.ranks)}"
        which = some_of(found.tensors, found.total, "parameters")
        how = (
            "have other gradients on some ranks" if found.cause is Cause.BY_HOOK else f"keep their local gradients{on}"
        )
        message = f"from step {found.step} of {divergences.steps} on, {which} {how}: {WHY[found.cause]}"
        plain = finding(
            RULE, found, message, tensors=found.tensors, cause=found.cause.value, note=NOTES[found.cause],
            remedy=REMEDIES[found.cause],
        )  # fmt: skip
        decides = decides_the_reduction(code) if found.cause is Cause.NO_SYNC else ()
        first, last = (decides, ()) if len(decides) == 1 else ((), decides)
        yield replace(plain, where=(*first, *plain.where, *last))

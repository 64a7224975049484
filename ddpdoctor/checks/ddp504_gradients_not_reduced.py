"""Gradients that each rank keeps for itself: the replicas train on, alone."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase, some_of
from ddpdoctor.analysis.gradients import WHY
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP504",
    name="gradients-not-reduced",
    summary="gradients reach the optimizer without having been averaged over the ranks",
    severity=Severity.FAIL,
    remedy="build the model completely, then wrap it; call the wrapper for every forward; one backward for each "
    "forward",
    explains=("DDP503", "DDP507", "DDP509"),
)

REMEDIES = {
    "bypassed": "call the wrapper, model(x), and not model.module(x), wherever a backward follows",
    "no_sync": "run forward and backward of the last micro-batch outside no_sync, both together",
    "again": "add the losses and call backward once after each forward",
    "no model": "all_reduce every gradient between backward and step and divide by the number of ranks, or wrap the model in "
    "DistributedDataParallel",
    "autograd.grad": "use loss.backward(), or average the gradients yourself with all_reduce",
    "added": "build the whole model, then wrap it",
    "replaced": "load and change the model before wrapping it; load_state_dict without assign=True",
    "unfrozen": "wrap the model again after requires_grad changes",
    "ignored": "remove them from _ddp_params_and_buffers_to_ignore, or reduce them yourself",
}

NOTES = {
    "bypassed": "calls the module",
    "no_sync": "the forward",
    "again": "the last backward",
    "no model": "steps with them",
    "autograd.grad": "computes them",
    "unfinished": "steps with them",
}


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step whose gradients are the ranks' own."""
    for found in of_phase(divergences, "not reduced"):
        message = (
            f"from step {found.step} of {divergences.steps} on, {some_of(found, 'parameters')} keep their local gradients: "
            f"{WHY[found.why]}"
        )
        yield finding(RULE, found, message, note=NOTES.get(found.why, ""), remedy=REMEDIES.get(found.why))

"""Reduced gradients that are not the mean of the local ones, on all ranks alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.gradients import ReductionScaled
from ddpdoctor.evidence.value_chains import HOOK, ValueChains
from ddpdoctor.messages import value_chains
from ddpdoctor.messages.divergence import everyone, finding, some_of
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP521",
    name="reduction-scale-wrong",
    summary="reduced gradients are a multiple of the mean of the local gradients",
    severity=Severity.FAIL,
    shown_by="the reduced gradient is the mean times a factor: `ddpdoctor verify-sync`",
    remedy="divide by the number of ranks exactly once: a communication hook or your own all_reduce must give the mean",
    about_step=True,
)


def check(divergences: Divergences, chains: ValueChains | None = None) -> Iterator[Finding]:
    """A factor of the number of ranks, or its inverse, in every step seen; any other one that a hook gives a part of them."""
    for found in divergences.of(ReductionScaled):
        which = f"the reduced gradient of {some_of(found.tensors, found.total, 'parameters')}" if found.tensors else ""
        message = (
            f"from step {found.step} of {divergences.steps} on, {which or 'the reduced gradient'} is {found.factor:g} times the "
            f"mean of the local gradients on {everyone(found.ranks, divergences.world_size)}"
        )
        shown = finding(
            RULE,
            found,
            message,
            tensors=found.tensors,
            cause="hook" if found.by_hook else "",
            note="registers the hook" if found.by_hook else "the backward",
            numbers={"factor": found.factor},
        )
        yield replace(shown, where=(*(_of_hook(found, chains) if found.by_hook else ()), *shown.where))


def _of_hook(found: ReductionScaled, chains: ValueChains | None) -> tuple[Where, ...]:
    """The only place in the hook that scales by something else than the number of ranks, or else the hook."""
    known = {chains.of(line, HOOK) for line in found.lines.values()} if chains is not None else set()
    hook = known.pop() if len(known) == 1 else None
    if hook is None or hook.origin is None:
        return ()
    if hook.entry is not None:
        return value_chains.at_ranks(
            hook.entry, found.ranks, f"`{hook.entry.text}`: the factor is not the number of ranks"
        )
    return value_chains.at_ranks(hook.origin, found.ranks, "the hook")

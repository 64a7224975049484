"""Gradients that were averaged and then changed on some ranks only: clipping, noise or masks that depend on the rank."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.gradients import GradientsChanged
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.messages import value_chains
from ddpdoctor.messages.divergence import finding, some_of, when
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, Writer, group_ranks

RULE = Rule(
    code="DDP505",
    name="gradients-changed-after-reduce",
    summary="averaged gradients were changed on some ranks before the step",
    severity=Severity.FAIL,
    shown_by="gradients are equal after backward and differ at the step: `ddpdoctor verify-sync`",
    remedy="treat the gradients the same way on every rank: clip, mask and add noise based on the reduced gradient and "
    "a shared seed",
    explains=("DDP503", "DDP507", "DDP509"),
    about_step=True,
    writer=Writer.ANY_TIME,
)


def check(divergences: Divergences, chains: ValueChains | None = None) -> Iterator[Finding]:
    """The first step at which some ranks' gradients are not the mean of all."""
    for found in divergences.of(GradientsChanged):
        doubt = tie_note(tied=found.tied)
        changed = some_of(found.tensors, found.total, "gradients")
        who = group_ranks(found.ranks)
        did = f"all ranks except {who} changed" if found.left else f"{who} changed"
        message = f"{when(found, divergences)}, {did} {changed} between the all-reduce and the optimizer step{doubt}"
        shown = finding(
            RULE,
            found,
            message,
            tensors=found.tensors,
            note="changes the gradients" if found.wrote else "the optimizer step",
        )
        wrote = (
            [rank for rank in range(divergences.world_size) if rank not in found.ranks] if found.left else found.ranks
        )
        written = () if found.wrote else value_chains.only_write(chains, "gradients", (), wrote)
        yield replace(shown, where=(*written, *shown.where))

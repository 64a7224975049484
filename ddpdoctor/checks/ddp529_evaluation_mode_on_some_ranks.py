"""A rank that trains while its model, or a part of it, is still in evaluation mode."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.steps import ModesDiffer
from ddpdoctor.messages.divergence import finding, when
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import sides_sentence
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP529",
    name="evaluation-mode-on-some-ranks",
    summary="some ranks train with modules in evaluation mode that are in training mode on the others",
    severity=Severity.FAIL,
    shown_by="`module.training` is not the same on all ranks in the forward of a training step: `ddpdoctor verify-sync`",
    remedy="call `model.train()` on every rank before it trains on, also on the rank that has evaluated: as the first line of "
    "each epoch, outside any test of the rank",
    explains=("DDP508", "DDP527"),
    about_step=True,
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step with such a difference, and what is in evaluation mode on which ranks."""
    for found in divergences.of(ModesDiffer):
        yield finding(
            RULE,
            found,
            f"{when(found, divergences)}, modules in evaluation mode: {sides_sentence(found.sides)}; dropout and BatchNorm do "
            f"something else there{tie_note(tied=found.tied)}",
            note="puts them into evaluation mode" if found.set_here else "the forward",
        )

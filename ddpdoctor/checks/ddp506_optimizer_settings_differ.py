"""Learning rates and other settings that are not the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences, SettingsAt, SettingsDiffer
from ddpdoctor.messages.divergence import SHOWN, finding, when
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.replicas import sides_sentence
from ddpdoctor.model import Finding, Rule, Severity, Writer

RULE = Rule(
    code="DDP506",
    name="optimizer-settings-differ",
    summary="ranks step with different optimizer settings",
    severity=Severity.FAIL,
    shown_by="optimizer.param_groups differ between ranks: `ddpdoctor verify-sync`",
    remedy="configure the optimizer and its schedule with the same values on every rank; step the scheduler on all "
    "ranks, from a reduced metric",
    explains=("DDP503", "DDP507", "DDP509"),
    about_step=True,
    writer=Writer.BETWEEN_STEPS,
)


NOTES = {
    SettingsAt.THE_WRITE: "changes the setting",
    SettingsAt.GIVEN: "sets the value",
    SettingsAt.THE_STEP: "the optimizer step",
}


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step taken with different settings."""
    for found in divergences.of(SettingsDiffer):
        doubt = tie_note(tied=found.tied)
        others = found.names[1:]
        more = f"; also different: {', '.join(others[:SHOWN])}{', ...' * (len(others) > SHOWN)}" if others else ""
        message = f"{when(found, divergences)}, {found.names[0]} is {sides_sentence(found.sides)}{more}{doubt}"
        cause = "given" if found.shown is SettingsAt.GIVEN else ""
        yield finding(RULE, found, message, tensors=found.names, cause=cause, note=NOTES[found.shown])

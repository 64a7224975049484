"""Learning rates and other settings that are not the same on all ranks."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import SHOWN, finding, of_phase, when
from ddpdoctor.analysis.replica_words import sides_sentence
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP506",
    name="optimizer-settings-differ",
    summary="ranks step with different optimizer settings",
    severity=Severity.FAIL,
    remedy="set the optimizer and its schedule from the same numbers on every rank; step the scheduler on all of "
    "them, by a reduced metric",
    explains=("DDP503", "DDP507", "DDP509"),
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first step taken with different settings."""
    for found in of_phase(divergences, "settings"):
        doubt = "; it cannot be told which side is right" if found.tied else ""
        others = found.tensors[1:]
        more = f"; {', '.join(others[:SHOWN])}{', ...' * (len(others) > SHOWN)} likewise" if others else ""
        message = f"{when(found, divergences)}, {found.tensors[0]} is {sides_sentence(found.sides)}{more}{doubt}"
        note = "changes it" if found.wrote else "sets it" if found.why == "given" else "steps with it"
        yield finding(RULE, found, message, note=note)

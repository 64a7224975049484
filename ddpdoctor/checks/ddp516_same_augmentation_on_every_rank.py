"""Every rank draws the same random numbers: the same augmentation of different samples, or the same dropout mask."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.data import DrawnFor, SameDraws
from ddpdoctor.messages.divergence import finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP516",
    name="same-augmentation-on-every-rank",
    summary="all ranks draw the same random numbers for augmentation or dropout",
    severity=Severity.INFO,
    shown_by="random states are equal on all ranks after the start: `ddpdoctor verify-sync`",
    remedy="build the model from one seed, then seed each rank with seed + rank; give DataLoader workers a "
    "worker_init_fn that seeds what they draw from",
)

DRAWN = {
    DrawnFor.DATA: "between two steps (data loading)",
    DrawnFor.MODEL: "between the forward and the end of the step",
}


def check(divergences: Divergences) -> Iterator[Finding]:
    """One finding per generator that is in step on all ranks while they draw from it."""
    for found in divergences.of(SameDraws):
        message = (
            f"in {found.steps} steps, the generator {found.generator} was in the same state on all ranks when they "
            f"drew from it {DRAWN[found.drawn_for]}"
        )
        note = "the next forward" if found.drawn_for is DrawnFor.DATA else "draws in it"
        yield finding(
            RULE,
            found,
            message,
            tensors=[found.generator],
            cause=found.drawn_for.value,
            note=note,
            numbers={"steps": found.steps},
        )

"""Every rank draws the same random numbers: the same augmentation of different samples, or the same dropout mask."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP516",
    name="same-augmentation-on-every-rank",
    summary="all ranks draw the same random numbers for augmentation or dropout",
    severity=Severity.INFO,
    remedy="build the model from one seed, then seed each rank with seed + rank; give DataLoader workers a "
    "worker_init_fn that seeds what they draw from",
)

DRAWN = {"data": "between two steps, where data is loaded", "model": "between the forward and the end of the step"}


def check(divergences: Divergences) -> Iterator[Finding]:
    """One finding a generator that is in step on all ranks while they draw from it."""
    for found in of_phase(divergences, "same draws"):
        message = (
            f"in {found.numbers['steps']} steps, the generator {found.tensors[0]} was in the same state on all ranks when they "
            f"drew from it {DRAWN[found.why]}"
        )
        yield finding(RULE, found, message, note="the next forward" if found.why == "data" else "draws in it")

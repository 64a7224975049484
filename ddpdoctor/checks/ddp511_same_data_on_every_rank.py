"""Every rank trains on the same samples: N ranks do the work of one."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.divergence_words import finding, of_phase
from ddpdoctor.evidence.divergence import Divergences
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP511",
    name="same-data-on-every-rank",
    summary="all ranks train on the same samples",
    severity=Severity.FAIL,
    remedy="give each rank its own part: DataLoader(..., sampler=DistributedSampler(dataset))",
    explains=("DDP513", "DDP516"),
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """An epoch whose indices, or steps whose inputs, are the same on all ranks."""
    for found in of_phase(divergences, "same data"):
        message = (
            f"in epoch {found.numbers['epoch']:g}, all {divergences.world_size} ranks draw the same "
            f"{found.numbers['unique']:g} samples in the same order"
            if found.why == "indices"
            else f"the model gets the same input on all {divergences.world_size} ranks, in {found.numbers['steps']:g} of "
            f"{found.numbers['steps']:g} steps seen"
        )
        yield finding(RULE, found, message, note="iterates over them" if found.why == "indices" else "steps with it")

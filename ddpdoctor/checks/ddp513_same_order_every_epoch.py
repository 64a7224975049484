"""The same shuffled order in every epoch: the sampler was never told which epoch it is."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.data import SameOrder
from ddpdoctor.messages.divergence import finding
from ddpdoctor.model import Finding, Rule, Severity

RULE = Rule(
    code="DDP513",
    name="same-order-every-epoch",
    summary="two epochs use the same shuffled order",
    severity=Severity.FAIL,
    shown_by="the order of the samples is the same in two epochs: `ddpdoctor verify-sync`",
    remedy="call sampler.set_epoch(epoch) at the start of each epoch",
)


def check(divergences: Divergences) -> Iterator[Finding]:
    """The first epoch that repeats the order of the one before."""
    for found in divergences.of(SameOrder):
        message = f"epoch {found.epoch} repeats the shuffled order of epoch {found.before} on all ranks"
        note = f"iterates over {found.sampler}" if found.sampler else ""
        yield finding(
            RULE, found, message, cause=found.sampler, note=note, numbers={"epoch": found.epoch, "before": found.before}
        )

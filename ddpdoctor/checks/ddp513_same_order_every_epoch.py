"""The same shuffled order in every epoch: the sampler was never told which epoch it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.data import SameOrder
from ddpdoctor.evidence.value_chains import EpochCall, ValueChains
from ddpdoctor.messages import value_chains
from ddpdoctor.messages.divergence import finding, where
from ddpdoctor.model import Finding, Rule, Severity, Where

RULE = Rule(
    code="DDP513",
    name="same-order-every-epoch",
    summary="two epochs use the same shuffled order",
    severity=Severity.FAIL,
    shown_by="the order of the samples is the same in two epochs: `ddpdoctor verify-sync`",
    remedy="call sampler.set_epoch(epoch) at the start of each epoch",
)

TELLS = "tells the sampler its epoch"
PASSED_ON = f"{RULE.remedy}; a sampler of batches around it must pass that call on"


def check(divergences: Divergences, chains: ValueChains | None = None) -> Iterator[Finding]:
    """The first epoch that repeats the order of the one before."""
    for found in divergences.of(SameOrder):
        message = f"epoch {found.epoch} repeats the shuffled order of epoch {found.before} on all ranks"
        told = found.told is not None
        if told:
            message += f": their samplers are at epoch {found.told} both times"
        over = f"iterates over {found.sampler}" if found.sampler else ""
        note = "the loop over the loader" if told else over
        shown = finding(
            RULE, found, message, cause=found.sampler, note=note, remedy=PASSED_ON if told else None,
            numbers={"epoch": found.epoch, "before": found.before},
        )  # fmt: skip
        made = where(found.made, found.ranks, "makes the sampler") if told else ()
        calls = chains.epoch_calls if chains is not None and told and not found.told_at else ()
        unheard = (
            [_unheard(call, found.ranks) for call in calls]
            if len(calls) == 1
            else [where(found.told_at, found.ranks, TELLS)]
        )
        yield replace(shown, where=(*unheard[0], *made, *shown.where))


def _unheard(call: EpochCall, ranks: Sequence[int]) -> tuple[Where, ...]:
    """The only call of `set_epoch`, which did not reach the sampler: the test around it, or else the call."""
    line = call.test or call.at
    under = f" under `{call.test.text}`" if call.test is not None else ""
    return value_chains.at_ranks(line, ranks, f"`{call.at.text}`{under}, which did not reach the sampler")

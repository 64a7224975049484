"""The ranks' parts of the data overlap, or leave samples out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.data import SamplesOverlap
from ddpdoctor.evidence.value_chains import DRAWS, ValueChains
from ddpdoctor.messages import sampler_shares, value_chains
from ddpdoctor.messages.divergence import where
from ddpdoctor.model import Finding, Rule, Severity, group_ranks

OF_OWN = (
    "draw the same order on every rank before each takes its part of it: shuffle with a generator of its own, seeded with one "
    "number for all ranks, plus the epoch"
)
RULE = Rule(
    code="DDP512",
    name="samples-overlap-or-lost",
    summary="the ranks' shards of the data set overlap or do not cover it",
    severity=Severity.FAIL,
    shown_by="an epoch sees a sample twice or never: `ddpdoctor verify-sync`",
    remedy="pass the same seed, world size and data set order to DistributedSampler on all ranks, and each its own rank",
)


def check(divergences: Divergences, chains: ValueChains | None = None) -> Iterator[Finding]:
    """An epoch in which more samples repeat, or are missing, than padding and drop_last explain."""
    for found in divergences.of(SamplesOverlap):
        repeats = found.drawn - found.unique
        minority = f"; without {group_ranks(found.ranks)} the shards would not overlap" if found.without_them else ""
        message = (
            f"in epoch {found.epoch}, {found.drawn} draws covered {found.unique} of {found.length} samples: {repeats} "
            f"draws were repeats and {found.missing} samples were never drawn{minority}"
        )
        cause = "strangers" if found.without_them else ""
        numbers = {"missing": found.missing, "length": found.length}
        is_whole = not found.shares and found.drawn == divergences.world_size * found.length and not found.missing
        if is_whole:
            message += f"; each of the {divergences.world_size} ranks draws all of them"
        shown = sampler_shares.finding(RULE, found, message, chains, cause=cause, numbers=numbers, is_whole=is_whole)
        if found.draws and not is_whole:
            drawn = where(found.draws, found.ranks, "draws the part of this rank")
            seeded = value_chains.depends_on_process(chains, found.draws.values(), DRAWS, found.ranks)
            shown = replace(shown, where=(*seeded, *drawn, *shown.where), remedy=OF_OWN)
        yield shown

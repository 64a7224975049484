"""Weights that code wrote on some ranks only, outside the optimizer: a reload, an average of weights, a clamp."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.steps import HowWritten, WeightsWritten, WrittenAt
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.messages import value_chains, weight_writes
from ddpdoctor.messages.divergence import LOAD, WRITE, finding, some_of
from ddpdoctor.model import Finding, Rule, Severity, Writer, group_ranks

RULE = Rule(
    code="DDP509",
    name="weights-written-on-one-rank",
    summary="weights were written on some ranks only, outside the optimizer",
    severity=Severity.FAIL,
    shown_by="weights change on some ranks between two steps: `ddpdoctor verify-sync` names the line",
    remedy="make the same change on every rank, or make it on one rank and broadcast the result",
    explains=("DDP503", "DDP507", "DDP508"),
    about_step=True,
    writer=Writer.ANY_TIME,
)

PARTLY_LOADED = (
    "load the same keys on every rank: load_state_dict(..., strict=True) refuses a file that lacks some; or load on one rank "
    "before the model is wrapped"
)
REWRAP = (
    "add, replace or tie parameters on every rank alike, before the model is wrapped: DDP does not reduce the gradients of "
    "those that come later, and the optimizer does not step them"
)
OF_EACH = "write the same values on every rank: draw them from the same seed, or write them on one rank and broadcast the result"
EACH_WROTE = "each wrote other values into {written} {place}"
CHANGES_MODEL = "adds or replaces the parameter"
REMEDIES = {HowWritten.CHANGED_MODEL: REWRAP}
DID = {
    HowWritten.WROTE: "wrote {written} {place}",
    HowWritten.KEPT: "kept {written}, which all other ranks wrote {place}",
    HowWritten.CHANGED_MODEL: "added, replaced or removed {written}",
}
BETWEEN_STEPS = "before", "outside the optimizer"
NOTES = {
    WrittenAt.THE_WRITE: "writes the weights",
    WrittenAt.A_LOAD: "loads weights",
    WrittenAt.THE_NEXT_FORWARD: "the first forward after the write",
    WrittenAt.THE_STEP: "the optimizer step after the write",
}
SHOWN = {WrittenAt.THE_WRITE: WRITE, WrittenAt.A_LOAD: LOAD}


def check(divergences: Divergences, code: SourceCode | None, chains: ValueChains | None = None) -> Iterator[Finding]:
    """The first step before which weights changed on some ranks, with the statement that the source shows where none was seen."""
    for found in divergences.of(WeightsWritten):
        written = some_of(found.tensors, found.total, "parameters")
        at, place = ("in", "between the forward and the optimizer step") if found.after_forward else BETWEEN_STEPS
        by_each = found.how is HowWritten.WROTE and len(found.ranks) == divergences.world_size
        did = (EACH_WROTE if by_each else DID[found.how]).format(written=written, place=place)
        message = f"{_when(found, at)} of {divergences.steps}, {group_ranks(found.ranks)} {did}"
        cause = WrittenAt.A_LOAD.value if found.shown is WrittenAt.A_LOAD else ""
        cause = WrittenAt.THE_STEP.value if found.after_forward else cause
        partly = found.how is HowWritten.KEPT and found.shown is WrittenAt.A_LOAD
        changes_model = found.how is HowWritten.CHANGED_MODEL and found.shown is WrittenAt.THE_WRITE
        others = [rank for rank in range(divergences.world_size) if rank not in found.ranks]
        unseen = code if found.shown not in SHOWN else None
        by_some = [*weight_writes.by_some(unseen, found.ranks, (found.ranks, others))]
        written_by = by_some or [*weight_writes.by_name(unseen, found.ranks, found.tensors)]
        if not written_by and found.shown not in SHOWN and found.how is not HowWritten.CHANGED_MODEL:
            who = others if found.how is HowWritten.KEPT else found.ranks
            written_by = [*value_chains.only_write(chains, "weights", found.tensors, who)]
        shown = finding(
            RULE, found, message, tensors=found.tensors, cause=cause, note=CHANGES_MODEL if changes_model else _note(found),
            remedy=OF_EACH if by_each else PARTLY_LOADED if partly else REMEDIES.get(found.how),
            numbers={"shown": SHOWN.get(found.shown, "")},
        )  # fmt: skip
        yield replace(shown, where=(*written_by, *shown.where))


def _when(found: WeightsWritten, at: str) -> str:
    """`before step 31`; `between steps 15 and 31` where nobody looked at the steps in between."""
    return f"{at} step {found.step}" if found.since is None else f"between steps {found.since} and {found.step}"


def _note(found: WeightsWritten) -> str:
    if found.since is not None and found.shown is WrittenAt.THE_NEXT_FORWARD:
        return "the first audited forward after the write"
    return NOTES[found.shown]

"""A model beside the wrapped one, such as an average of its weights or a teacher, that is updated on some ranks only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from typing_extensions import assert_never

from ddpdoctor.analysis.replicas.divergence import Divergences
from ddpdoctor.analysis.replicas.divergences.results import CopyUsed, UnwrappedDiffers
from ddpdoctor.evidence.value_chains import ValueChains
from ddpdoctor.messages import value_chains
from ddpdoctor.messages.divergence import finding
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.model import Finding, Rule, Severity, group_ranks, verb

RULE = Rule(
    code="DDP528",
    name="unwrapped-model-differs",
    summary="a model beside the wrapped one was equal on all ranks and no longer is",
    severity=Severity.FAIL,
    shown_by="an EMA, teacher or target network is updated on some ranks only: `ddpdoctor verify-sync`",
    remedy="update it on every rank, outside any test of the rank; or make it on one rank only, and evaluate and save it there",
    about_step=True,
)

COPY_LATER = "copy it from the model after DistributedDataParallel has made the weights equal"


def check(divergences: Divergences, chains: ValueChains | None = None) -> Iterator[Finding]:
    """Each such model once; one that no rank has called since is no fault yet: one rank may keep it to save it."""
    for found in divergences.of(UnwrappedDiffers):
        shown = finding(
            RULE,
            found,
            _message(found, divergences),
            tensors=(found.name,),
            cause=found.used.value,
            note="writes it" if found.writes else "calls it" if found.used_on else "the optimizer step",
            severity=Severity.INFO if found.used is CopyUsed.UNKNOWN else None,
            remedy=None if found.was_equal or found.still else COPY_LATER,
        )
        written = value_chains.only_write(chains, "copies", (), found.moved) if not found.writes and found.still else ()
        yield replace(shown, where=(*written, *shown.where))


def _message(found: UnwrappedDiffers, divergences: Divergences) -> str:
    what = f"{found.name} ({found.kind}), which is under no DistributedDataParallel,"
    when = (
        f"at the end of {divergences.steps} steps" if found.at_end else f"at step {found.step} of {divergences.steps}"
    )
    if not found.was_equal and not found.still:
        who = f"all ranks update it, and {group_ranks(found.ranks)} began with other values than the rest"
    elif not found.was_equal:
        who = f"{group_ranks(found.moved)} {verb(found.moved, 'updates', 'update')} it, {group_ranks(found.still)} never did"
    elif found.still:
        who = (
            f"{group_ranks(found.moved)} updated it since it was equal on all ranks, {group_ranks(found.still)} did not"
        )
    else:
        who = "all ranks updated it since it was equal"
        if not found.tied and len(found.ranks) < len(found.moved):
            who += f", {group_ranks(found.ranks)} to other values than the rest"
    return f"{when}, {what} differs between ranks: {who}{_use(found)}{tie_note(tied=found.tied)}"


def _use(found: UnwrappedDiffers) -> str:
    calls = verb(found.used_on, "calls", "call")
    match found.used:
        case CopyUsed.DIFFERENT:
            return f"; {group_ranks(found.used_on)} {calls} it"
        case CopyUsed.STALE:
            return f"; {group_ranks(found.used_on)} {calls} a copy that is not updated"
        case CopyUsed.UNKNOWN:
            return ""
        case _:
            assert_never(found.used)

"""A collective that some ranks call and the others never do: under `if rank == 0`, in one loop turn too many."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis import handled
from ddpdoctor.analysis.apart import HOW_IT_IS_KNOWN, Apart
from ddpdoctor.analysis.callsites import Relation
from ddpdoctor.analysis.desync import Cause, Desync, Desyncs
from ddpdoctor.analysis.iterations import Iterations, OutOfStep
from ddpdoctor.analysis.wording import condition_note, names, unplaced, verb, witnesses
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP305",
    name="collective-called-by-some",
    summary="some ranks call a collective that the others never call",
    severity=Severity.FAIL,
    remedy="call it on every rank, or run this part on the unwrapped module (`ddp.module`) so that it needs no collective",
    explains=("DDP307", "DDP314", "DDP316", "DDP318", "DDP408"),
)


def check(
    desyncs: Desyncs | None, iterations: Iterations | None, apart: Apart | None, calls: PerRank[CollectiveCalls] | None
) -> Iterator[Finding]:
    """The ranks with a call too many, or without one, how many each made, and the line of the odd call.

    Ranks whose iterations had parted before come apart in the end in any call: that is no call too many.
    """
    if desyncs is None:
        yield from _by_stacks(apart)
        return
    parted = iterations.out_of_step if iterations is not None else None
    for desync in (*desyncs.of(Cause.EXTRA), *desyncs.of(Cause.LACKING)):
        if parted is not None and _had_parted(parted, desync):
            continue
        everyone = (*desync.odd, *desync.usual)
        errors = handled.errors_of(calls, desync)
        yield RULE.finding(
            _said(desync),
            ranks=desync.culprits,
            where=[
                *witnesses(desync.made, everyone, odd=desync.odd, odd_note=condition_note(desync.comparison)),
                *handled.where(errors),
            ],
            details=[*handled.told(errors), *unplaced(desync.made, everyone)],
            remedy=handled.REMEDY if errors else None,
            seq=desync.seq,
            group=desync.group.name or "default",
            calls={str(rank): desync.group.reached(rank) for rank in everyone},
        )


def _by_stacks(apart: Apart | None) -> Iterator[Finding]:
    if apart is None:
        raise SkipCheck("no FlightRecord, and the stacks do not show ranks in different collectives")
    if apart.cause in (Cause.EXTRA, Cause.LACKING):
        note = condition_note(apart.comparison)
        yield RULE.finding(
            f"{apart.told()}{'; of two sides neither can be told right' if apart.tied else ''}",
            ranks=apart.culprits,
            where=apart.where(note),
            details=(HOW_IT_IS_KNOWN,),
        )


def _had_parted(parted: OutOfStep, desync: Desync) -> bool:
    """Whether iterations parted before, and all that the calls show is that one side has come to the end of its loop."""
    at_the_end = desync.comparison.relation is Relation.WITHIN and not desync.group.name and desync.shift is None
    return at_the_end and max(parted.seq.values()) < desync.seq


def _said(desync: Desync) -> str:
    odd, usual = group_ranks(desync.odd), group_ranks(desync.usual)
    never = f"{usual} never {verb(desync.usual, 'calls', 'call')}"
    if desync.cause is Cause.LACKING:
        instead = names(desync.made, desync.odd)
        said = (
            f"{odd} never called {names(desync.made, desync.usual)} that {usual} {verb(desync.usual, 'calls', 'call')}"
        )
        return f"{said}: the next that {verb(desync.odd, 'it', 'they')} called was {instead}" if instead else said
    said = f"{odd} called {names(desync.made, desync.odd)} that {never}"
    if desync.ended:
        return f"{said}: {verb(desync.ended, 'it', 'they')} ended with exit code 0"
    if desync.shift is not None and desync.met is not None:
        times = "" if desync.shift.extra == 1 else f" and {desync.shift.extra - 1} more"
        end = f"{names(desync.met, desync.odd)} met {names(desync.met, desync.usual)}"
        return f"{odd} called {names(desync.made, desync.odd)}{times} that {never}: wrong calls were paired until {end}"
    loop = desync.comparison.loop
    if desync.comparison.relation is Relation.WITHIN and desync.comparison.again and loop is not None:
        said = (
            f"{odd} called {names(desync.made, desync.odd)} where {usual} called {names(desync.made, desync.usual)}: "
            f"{verb(desync.odd, 'it makes', 'they make')} a turn of `{loop.head}` more, or left that call out before"
        )
    if desync.tied:
        return f"{said}; of two sides neither can be told right"
    return said

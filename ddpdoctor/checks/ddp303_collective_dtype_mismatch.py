"""Ranks gave one collective tensors of different dtypes: a crash, or bits of one type summed as another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ddpdoctor.analysis.collectives.groups.desync import Desyncs
from ddpdoctor.analysis.collectives.programs.deviating_side import decide
from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.recorders.matching import MismatchKind, dtypes
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.majority import vote
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.collectives import aftermath, unplaced, witnesses
from ddpdoctor.model import Finding, Rule, Severity, group_ranks, measured_by_rank

RULE = Rule(
    code="DDP303",
    name="collective-dtype-mismatch",
    summary="ranks gave one collective tensors of different dtypes",
    severity=Severity.FAIL,
    shown_by="the dumps show one operation with different dtypes",
    remedy="cast to one dtype on every rank before the call; results of this call are wrong on all ranks",
    explains=("DDP306", "DDP307", "DDP312", "DDP314", "DDP318", "DDP408"),
)


def check(timeline: Timeline, programs: ProgramComparison, desyncs: Desyncs | None) -> Iterator[Finding]:
    """The first collective of each group with dtypes that differ, the ranks by dtype, and whether it went unnoticed.

    Calls that are known to be two different ones on two sides are not compared.
    """
    explained = {*desyncs.calls} if desyncs is not None else set()
    for group in timeline.groups:
        mismatch = group.mismatches.get(MismatchKind.DTYPE)
        if mismatch is None or any(name == group.name and seq <= mismatch.seq for name, seq in explained):
            continue
        held = {
            rank: "/".join(dtypes(issued.calls)) for rank, issued in mismatch.issued.items() if dtypes(issued.calls)
        }
        sides = vote(held)
        if sides.tied:
            deviation = decide(programs, group, mismatch.seq, held, lambda call: "/".join(dtypes((call,))))
            if deviation is not None:
                sides = replace(sides, tied=False, minority=deviation.ranks)
        by_dtype = grouped(
            (held[rank], rank) for rank in (*sides.minority, *(rank for rank in held if rank not in sides.minority))
        )
        (first, its), *others = by_dtype.items()
        everyone = tuple(rank for ranks in by_dtype.values() for rank in ranks)
        rest = " and ".join(f"{group_ranks(ranks)} {dtype}" for dtype, ranks in others)
        yield RULE.finding(
            f"{group_ranks(its)} gave {mismatch.issued[its[0]].name} a tensor of {first}, {rest}{aftermath(group, mismatch)}",
            ranks=sides.minority,
            where=witnesses(mismatch.issued, everyone),
            details=unplaced(mismatch.issued, everyone),
            seq=mismatch.seq,
            group=group.name or "default",
            dtypes=measured_by_rank(held),
            more=mismatch.more,
        )

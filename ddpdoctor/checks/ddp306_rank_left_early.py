"""A rank that ended its loop, or the program, while others still needed it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.analysis import handled
from ddpdoctor.analysis.apart import HOW_IT_IS_KNOWN, Apart
from ddpdoctor.analysis.desync import Cause, Desync, Desyncs, skips
from ddpdoctor.analysis.failures import Failures, unique_ranks, who
from ddpdoctor.analysis.wording import names, unplaced, verb, witnesses
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, StepCount
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP306",
    name="rank-left-early",
    summary="a rank finished its loop or its program while others still needed it",
    severity=Severity.FAIL,
    remedy="give every rank the same number of batches (DistributedSampler with drop_last), or train under "
    "`with Join([model]):`; let all ranks decide together when to stop (all_reduce the decision)",
    explains=("DDP307", "DDP314", "DDP318", "DDP408"),
)


def check(
    desyncs: Desyncs | None,
    failures: Failures | None,
    steps: PerRank[StepCount] | None,
    code: SourceCode | None,
    apart: Apart | None,
    calls: PerRank[CollectiveCalls] | None,
) -> Iterator[Finding]:
    """The ranks that left, the call that each waits in or that it had ended, and the steps that each had made."""
    if desyncs is None and failures is None and apart is None:
        raise SkipCheck("no FlightRecord, and nobody saw a rank end")
    made_steps = {entry.rank: entry.value.steps for entry in steps or () if entry.value.steps is not None}
    left = desyncs.of(Cause.LEFT) if desyncs is not None else ()
    for desync in left:
        everyone = (*desync.odd, *desync.usual)
        errors = handled.errors_of(calls, desync)
        skipped = () if errors else _or_skipped(desync, code)
        yield RULE.finding(
            _said(desync, made_steps),
            ranks=desync.culprits,
            where=[*witnesses(desync.made, everyone), *handled.where(errors)],
            details=[*handled.told(errors), *unplaced(desync.made, everyone), *skipped],
            remedy=handled.REMEDY if errors else None,
            seq=desync.seq,
            group=desync.group.name or "default",
            calls={str(rank): desync.group.reached(rank) for rank in everyone},
            steps={str(rank): made_steps[rank] for rank in sorted(made_steps)},
        )
    if apart is not None and apart.cause is Cause.LEFT:
        yield RULE.finding(
            apart.told(f"left {verb(apart.culprits, 'its', 'their')} loop and "),
            ranks=apart.culprits,
            where=apart.where(""),
            details=(HOW_IT_IS_KNOWN,),
        )
    told = left or (desyncs is not None and any(desync.ended for desync in desyncs.found))
    if failures is not None and not told:
        yield from _by_exits(failures, made_steps)


def _by_exits(failures: Failures, steps: Mapping[int, int]) -> Iterator[Finding]:
    """Ranks that ended with 0 where all that failed says only that a peer was gone."""
    lost = failures.lost
    theirs = [failure for failure in failures.all if failure.echo is None and not failure.exit.ended_by_launcher]
    if failures.finished and lost and not theirs:
        after, still = _steps(failures.finished, steps), _steps(unique_ranks(lost), steps)
        made = f" after {after}" if after else ""
        comparison = f", after {still}" if still else ""
        yield RULE.finding(
            f"{group_ranks(failures.finished)} ended with exit code 0{made}, and {who(lost)} lost "
            f"{verb(failures.finished, 'it', 'them')} in the middle of a collective{comparison}",
            ranks=failures.finished,
            where=[where for failure in lost for where in failure.where("lost its peer here")],
            steps={str(rank): count for rank, count in sorted(steps.items())},
        )


def _said(desync: Desync, steps: Mapping[int, int]) -> str:
    odd, usual = group_ranks(desync.odd), group_ranks(desync.usual)
    after, still = _steps(desync.odd, steps), _steps(desync.usual, steps)
    there = f"{usual} {verb(desync.usual, 'waits', 'wait')} in {names(desync.made, desync.usual)}"
    comparison = f", {verb(desync.usual, 'which has', 'which have')} made {still}" if after and still else ""
    if desync.ended:
        return f"{odd} ended with exit code 0{f' after {after}' if after else ''} while {there}{comparison}"
    left = f"{odd} left {verb(desync.odd, 'its', 'their')} loop{f' after {after}' if after else ''}"
    return (
        f"{left} and {verb(desync.odd, 'waits', 'wait')} in {names(desync.made, desync.odd)} while {there}{comparison}"
    )


def _or_skipped(desync: Desync, code: SourceCode | None) -> Iterator[str]:
    """A rank that passes over a batch comes to the end of its loop as early as one that has fewer of them."""
    lines = skips(desync, code)
    if lines and not desync.ended:
        yield (
            f"either {group_ranks(desync.odd)} had fewer batches, or passed over one at the `continue` at {' or '.join(lines)}: "
            "then its gradients have been averaged with those of other steps since (DDP316)"
        )


def _steps(ranks: Sequence[int], steps: Mapping[int, int]) -> str:
    counts = sorted({steps[rank] for rank in ranks if rank in steps})
    if not counts:
        return ""
    span = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{span} step{'s' if counts != [1] else ''}"

"""Ranks made different collectives under one sequence number, and neither side left or called one too many."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.desync import Cause, Desyncs
from ddpdoctor.analysis.failures import Failures
from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.signatures import signatures_of
from ddpdoctor.analysis.watchdog import Watchdogs
from ddpdoctor.analysis.wording import called, condition_note, names, unplaced, witnesses
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP301",
    name="collective-mismatch",
    summary="ranks called different collectives where all must call the same",
    severity=Severity.FAIL,
    remedy="make every rank of the group call the same collective at this point; take it out of the branch that differs",
    explains=("DDP307", "DDP314", "DDP318", "DDP408"),
)


def check(desyncs: Desyncs | None, failures: Failures | None, watchdogs: Watchdogs | None) -> Iterator[Finding]:
    """The ranks whose operation is not the majority's, with both operations and both lines.

    The recorder comes first: PyTorch's own comparison (TORCH_DISTRIBUTED_DEBUG=DETAIL) sees the call at which it noticed,
    which is behind the one at which the ranks came apart. Without both, the last words of NCCL's watchdogs.
    """
    if desyncs is None and failures is None:
        raise SkipCheck("no FlightRecord, and nobody saw a rank end")
    if desyncs is not None and desyncs.found:
        yield from _by_chance(desyncs)
        yield from _by_recorder(desyncs)
    elif failures is not None:
        yield from _by_words(failures)
        if desyncs is None and watchdogs is not None:
            yield from _by_watchdogs(watchdogs)


def _by_words(failures: Failures) -> Iterator[Finding]:
    told = signatures_of(failures.of(RULE.code))
    if told is not None:
        tied = "; no majority tells which is right" if told.sides.tied else ""
        yield RULE.finding(
            f"{told.about_to('call {name}')}, and PyTorch refused{tied}",
            ranks=told.sides.odd,
            where=told.where,
            operations={group_ranks([rank]): told.made[rank].op for rank in sorted(told.made)},
        )


def _by_watchdogs(watchdogs: Watchdogs) -> Iterator[Finding]:
    met = watchdogs.operations()
    if met is not None:
        sides = vote({rank: one.name for rank, one in met.items()})
        told = [f"{group_ranks(ranks)} called {met[ranks[0]].name}" for ranks in reversed(sides.sides)]
        tied = "; no majority tells which is right" if sides.tied else ""
        yield RULE.finding(
            f"{' where '.join(told)}, as their watchdogs say{tied}",
            ranks=sides.odd,
            operations={group_ranks([rank]): one.op for rank, one in sorted(met.items())},
        )


def _by_chance(desyncs: Desyncs) -> Iterator[Finding]:
    for desync in desyncs.of(Cause.CHANCE):
        group = desync.group.name or "the default group"
        yield RULE.finding(
            f"{group_ranks(desync.usual)} call collectives of {group} from two threads: the order is chance, and "
            f"{names(desync.made, desync.usual)} was not the same call on every rank",
            where=witnesses(desync.made, desync.usual),
            remedy="give the thread a process group of its own (`dist.new_group()`) that nothing else uses",
            seq=desync.seq,
            group=desync.group.name or "default",
        )


def _by_recorder(desyncs: Desyncs) -> Iterator[Finding]:
    for desync in desyncs.of(Cause.MISMATCH):
        made, everyone = desync.made, (*desync.odd, *desync.usual)
        message = f"{called(made, desync.odd)} where {called(made, desync.usual)}"
        if desync.tied:
            message += "; no majority tells which is right"
        yield RULE.finding(
            message,
            ranks=desync.culprits,
            where=witnesses(made, everyone, odd=desync.odd, odd_note=condition_note(desync.comparison)),
            details=unplaced(made, everyone),
            seq=desync.seq,
            group=desync.group.name or "default",
            operations={group_ranks([rank]): made[rank].op for rank in sorted(made)},
        )

"""Ranks made different collectives under one sequence number, and neither side left or called one too many."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desync, Desyncs
from ddpdoctor.analysis.collectives.stacks.two_sides import StackDesync
from ddpdoctor.analysis.crashes.debug_detail_errors import differ_in_operation, first_side, signatures_of
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.crashes.nccl_watchdog import Watchdogs
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.messages.accumulation import decides_the_reduction
from ddpdoctor.messages.collectives import GROUP_OF_ITS_OWN, called, condition_note, names, unplaced, witnesses
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.skipped import NO_DUMP_AND_NO_EXIT
from ddpdoctor.messages.unshared_calls import elsewhere
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP301",
    name="collective-mismatch",
    summary="ranks called different collectives where all must call the same",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor hang` or `diagnose` on the dumps shows different operations at one position",
    remedy="make every rank of the group call the same collective at this point; take it out of the branch that differs",
    explains=("DDP307", "DDP312", "DDP314", "DDP318", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"Detected mismatch between collectives on ranks",
            applies=differ_in_operation,
        ),
    ),
)


def check(
    desyncs: Desyncs | None,
    failures: Failures | None,
    watchdogs: Watchdogs | None,
    stack_desync: StackDesync | None,
    code: SourceCode | None = None,
) -> Iterator[Finding]:
    """The ranks whose operation is not the majority's, with both operations and both lines.

    The recorder comes first: PyTorch's own comparison (TORCH_DISTRIBUTED_DEBUG=DETAIL) sees the call at which it noticed,
    which is behind the one at which the ranks diverged. Without both, the last messages of NCCL's watchdogs, or the stacks of
    ranks that wait in two branches of a test of the rank.
    """
    if desyncs is None and failures is None and stack_desync is None:
        raise SkipCheck(NO_DUMP_AND_NO_EXIT)
    if desyncs is not None and desyncs.found:
        yield from _from_race(desyncs)
        yield from _by_recorder(desyncs, code)
    elif failures is not None:
        yield from _by_words(failures)
        if desyncs is None and watchdogs is not None:
            yield from _by_watchdogs(watchdogs)
    elif stack_desync is not None and stack_desync.cause is Cause.MISMATCH and not stack_desync.makes_a_group:
        yield _by_stacks(stack_desync)


def _by_stacks(found: StackDesync) -> Finding:
    return RULE.finding(
        f"{found.sentence()}{tie_note(tied=found.tied)}",
        ranks=found.culprits,
        where=found.where(condition_note(found.comparison)),
        details=["inferred from current stacks and the source"],
    )


def _by_words(failures: Failures) -> Iterator[Finding]:
    found = failures.of(RULE.code)
    signatures = signatures_of(found)
    if signatures is not None:
        tied = tie_note(tied=signatures.sides.tied)
        yield RULE.finding(
            f"{signatures.about_to('call {name}')}, and PyTorch refused{tied}",
            ranks=signatures.sides.minority,
            where=signatures.where,
            operations={group_ranks([rank]): signatures.made[rank].op for rank in sorted(signatures.made)},
        )
    elif (side := next((side for failure in found if (side := first_side(failure.text))), None)) is not None:
        rank, one = side
        yield RULE.finding(
            f"PyTorch refused a collective in which ranks differ: rank {rank} was about to call {one.name}, and the log does not "
            "show the other side",
            where=[where for failure in found for where in failure.where("refused here")],
            remedy="give the whole message, which goes on with what the other rank was about to call",
            operations={group_ranks([rank]): one.op},
        )


def _by_watchdogs(watchdogs: Watchdogs) -> Iterator[Finding]:
    met = watchdogs.operations()
    if met is not None:
        sides = vote({rank: one.name for rank, one in met.items()})
        calls = [f"{group_ranks(ranks)} called {met[ranks[0]].name}" for ranks in reversed(sides.sides)]
        tied = tie_note(tied=sides.tied)
        yield RULE.finding(
            f"{' where '.join(calls)}, as their watchdogs say{tied}",
            ranks=sides.minority,
            operations={group_ranks([rank]): one.op for rank, one in sorted(met.items())},
        )


def _from_race(desyncs: Desyncs) -> Iterator[Finding]:
    for desync in desyncs.of(Cause.RACE):
        group = desync.group.name or "the default group"
        yield RULE.finding(
            f"{group_ranks(desync.majority)} call collectives of {group} from two threads, so their order is nondeterministic; "
            f"{names(desync.issued, desync.majority)} was not the same call on every rank",
            where=witnesses(desync.issued, desync.majority),
            remedy=GROUP_OF_ITS_OWN,
            seq=desync.seq,
            group=desync.group.name or "default",
        )


def _by_recorder(desyncs: Desyncs, code: SourceCode | None) -> Iterator[Finding]:
    for desync in desyncs.of(Cause.MISMATCH):
        issued, everyone = desync.issued, (*desync.minority, *desync.majority)
        message = f"{called(issued, desync.minority)} where {called(issued, desync.majority)}"
        message += tie_note(tied=desync.tied) + elsewhere(desync)
        yield RULE.finding(
            message,
            ranks=desync.all_culprits,
            where=[
                *(decides_the_reduction(code) if _reduces_alone(desync, code) else ()),
                *witnesses(issued, everyone, minority=desync.minority, minority_note=condition_note(desync.comparison)),
            ],
            details=unplaced(issued, everyone),
            seq=desync.seq,
            group=desync.group.name or "default",
            operations={group_ranks([rank]): issued[rank].op for rank in sorted(issued)},
        )


def _reduces_alone(desync: Desync, code: SourceCode | None) -> bool:
    """Whether one side is in a backward and the other is not: the former may reduce gradients that the other accumulates."""
    sides = (
        [desync.issued[rank].place for rank in side if rank in desync.issued]
        for side in (desync.minority, desync.majority)
    )
    in_backward = [[_calls_backward(place, code) for place in places] for places in sides]
    return all(len({*side}) == 1 for side in in_backward) and in_backward[0][0] is not in_backward[1][0]


def _calls_backward(place: Frame | None, code: SourceCode | None) -> bool:
    known = code.at(place.file, place.line) if code is not None and place is not None else None
    return known is not None and any(call.rpartition(".")[2] == "backward" for call in known.calls)

"""Ranks gave one collective tensors of shapes that do not belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ddpdoctor.analysis.collectives.groups.desync import Desyncs
from ddpdoctor.analysis.collectives.loops.iteration_skew import Iterations
from ddpdoctor.analysis.collectives.mispaired_objects import MispairedObjects
from ddpdoctor.analysis.collectives.programs.call_order import reordered
from ddpdoctor.analysis.collectives.programs.deviating_side import decide
from ddpdoctor.analysis.collectives.programs.program_comparison import ProgramComparison
from ddpdoctor.analysis.collectives.recorders.matching import MismatchKind, agreed_shape, dtypes, shape
from ddpdoctor.analysis.collectives.recorders.multithreaded import groups_in_turns
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, Mismatch, Timeline
from ddpdoctor.analysis.collectives.stacks.aborted_past_a_loop import in_its_call
from ddpdoctor.analysis.collectives.transfers.aborted_transfer import AbortedTransfer, aborted_transfer
from ddpdoctor.analysis.collectives.transfers.transfer_sizes import UnequalTransfer, UnequalTransfers
from ddpdoctor.analysis.crashes import exception_context
from ddpdoctor.analysis.crashes.debug_detail_errors import signatures_of
from ddpdoctor.analysis.crashes.error_patterns import SecondaryError
from ddpdoctor.analysis.crashes.failure import Failure, who
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.crashes.nccl_watchdog import Watchdogs
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Handled
from ddpdoctor.evidence.stacks import GivenSize
from ddpdoctor.grouping import grouped
from ddpdoctor.messages.collectives import FROM_TWO_THREADS, GROUP_OF_ITS_OWN, aftermath, of_shape, unplaced, witnesses
from ddpdoctor.messages.majority import tie_note
from ddpdoctor.messages.skipped import NO_DUMP_AND_NO_EXIT
from ddpdoctor.model import ErrorPattern, Finding, Rule, Severity, SkipCheck, Where, group_ranks, measured_by_rank

RULE = Rule(
    code="DDP302",
    name="collective-shape-mismatch",
    summary="ranks gave one collective tensors of different shapes",
    severity=Severity.FAIL,
    shown_by="TORCH_DISTRIBUTED_DEBUG=DETAIL or the dumps show one operation with different shapes",
    remedy="give it the same shape on every rank: pad, or exchange the sizes first (all_gather of the sizes)",
    explains=("DDP307", "DDP312", "DDP314", "DDP318", "DDP408"),
    errors=(
        ErrorPattern(
            regex=r"Detected mismatch between collectives on ranks",
        ),
    ),
)
OF_TWO_LINES = (
    "these are two calls of your code that met, and not one: see how these ranks came to different lines (a loop left early, a "
    "call that only some make) before you look at shapes"
)
RUN_IT_AGAIN = "run it again under `ddpdoctor watch`, or give the flight recorders to `ddpdoctor diagnose`"
COMPARE_THE_LINES = (
    "see what these lines give to the collective on each rank (shape, dtype), and what each rank called before"
)
IN_ONE_ORDER = (
    "make these calls in the same order on every rank: iterate over something sorted (`sorted(stats)`) and not over what each "
    "rank has put together itself"
)

MAY_BE_OF_OTHERS = (
    "they may be halves of different transfers: ring buffers have lost how many sends and receives came before"
)

_SIZES = re.compile(r"op\.preamble\.length <= op\.nbytes\. (?P<got>\d{1,20}) vs (?P<wanted>\d{1,20})(?!\d)")


def check(
    timeline: Timeline | None,
    desyncs: Desyncs | None,
    iterations: Iterations | None,
    failures: Failures | None,
    watchdogs: Watchdogs | None,
    calls: PerRank[CollectiveCalls] | None,
    programs: ProgramComparison | None,
    given: PerRank[GivenSize] | None = None,
    mispaired: MispairedObjects | None = None,
    transfers: UnequalTransfers | None = None,
) -> Iterator[Finding]:
    """The first collective of each group with shapes that differ, the ranks by shape, and whether it went unnoticed.

    Where the recorders show nothing amiss, gloo's own words: the ranks that received another amount than they expected,
    and what TORCH_DISTRIBUTED_DEBUG=DETAIL refused before it reached a recorder. Without recorders, the last messages of NCCL's
    watchdogs, or what the source and the variables of ranks that wait at one line tell.
    """
    if timeline is None and failures is None and given is None:
        raise SkipCheck(NO_DUMP_AND_NO_EXIT)
    if timeline is None and given is not None:
        yield from _by_stacks(given)
    if timeline is not None and programs is not None:
        explained = {*desyncs.calls} if desyncs is not None else set()
        unread = tuple(mispaired.where()) if mispaired is not None else ()
        yield from (replace(one, where=(*one.where, *unread)) for one in _by_recorder(programs, explained))
    for one in transfers.found if transfers is not None else ():
        yield _of_two_halves(one)
    skew = iterations is not None and iterations.out_of_step is not None
    amiss = skew or (timeline is not None and any(group.mismatches for group in timeline.groups))
    if failures is not None and not amiss and not (desyncs is not None and desyncs.found):
        yield from _refused(failures)
        errors = exception_context.errors_at_the_end(calls)
        yield from _by_words(failures, programs, errors, by_rank(calls) if calls is not None else None)
    if timeline is None and watchdogs is not None:
        yield from _by_watchdogs(watchdogs)


def _of_two_halves(found: UnequalTransfer) -> Finding:
    """A send and its receive: the rank whose size no other transfer has, else both."""
    sizes = {
        one.rank: f"{of_shape(shape(one.calls))} of {', '.join(dtypes(one.calls))}"
        for one in (found.send, found.receive)
    }
    order = sorted((found.send, found.receive), key=lambda one: one.rank not in found.ranks)
    return RULE.finding(
        f"rank {found.send.rank} sends {sizes[found.send.rank]} to rank {found.receive.rank}, which receives "
        f"{sizes[found.receive.rank]}{tie_note(tied=len(found.ranks) > 1)}",
        ranks=found.ranks,
        where=[
            Where.at(one.place, rank=one.rank, note=f"{one.op} of {sizes[one.rank]}")
            for one in order
            if one.place is not None
        ],
        details=[MAY_BE_OF_OTHERS] if found.assumed else [],
        remedy=COMPARE_THE_LINES,
        shapes=measured_by_rank(sizes),
    )


def _by_stacks(given: PerRank[GivenSize]) -> Iterator[Finding]:
    """Ranks that wait at one line with tensors of different sizes."""
    of_rank = by_rank(given)
    sides = vote({rank: call.size for rank, call in of_rank.items()})
    if len(sides.sides) < 2:
        return
    shapes = {rank: of_shape(((call.size,),)) for rank, call in of_rank.items()}
    (first, *_), *_ = groups = sides.sides if sides.tied else sides.sides[::-1]
    rest = " and ".join(f"{group_ranks(ranks)} {shapes[ranks[0]]}" for ranks in groups[1:])
    order = (*sides.minority, *(rank for rank in sorted(of_rank) if rank not in sides.minority))
    yield RULE.finding(
        f"{group_ranks(groups[0])} gave {of_rank[first].op} a tensor of shape {shapes[first]}, {rest}{tie_note(tied=sides.tied)}",
        ranks=sides.minority,
        where=[
            Where.at(of_rank[rank].place, rank=rank, note=f"{of_rank[rank].op} of {shapes[rank]}") for rank in order
        ],
        details=["inferred from the source and the variables of the ranks"],
        shapes=measured_by_rank(shapes),
    )


def _refused(failures: Failures) -> Iterator[Finding]:
    signatures = signatures_of(failures.of(RULE.code))
    if signatures is not None:
        yield RULE.finding(
            f"{signatures.about_to('give {name} a tensor of shape [{shape}]')}, and PyTorch refused",
            ranks=signatures.sides.minority,
            where=signatures.where,
        )


def _by_watchdogs(watchdogs: Watchdogs) -> Iterator[Finding]:
    met = watchdogs.sizes()
    if met is not None:
        sides = vote({rank: one.numel for rank, one in met.items()})
        (first, *_), *_ = groups = sides.sides[::-1]
        rest = " and ".join(f"{group_ranks(ranks)} {met[ranks[0]].numel}" for ranks in groups[1:])
        yield RULE.finding(
            f"{group_ranks(groups[0])} gave {met[first].name} {met[first].numel} elements, {rest}, as their watchdogs say",
            ranks=sides.minority,
            elements={str(rank): one.numel for rank, one in sorted(met.items())},
        )


def _by_words(
    failures: Failures,
    programs: ProgramComparison | None,
    errors: list[tuple[int, Handled]],
    calls: Mapping[int, CollectiveCalls] | None,
) -> Iterator[Finding]:
    found = failures.mismatched
    numbers = next((match for failure in found if (match := _SIZES.search(failure.text))), None)
    if numbers is None:
        return
    transfers = [one for failure in found if (one := aborted_transfer(failure.rank, calls or {})) is not None]
    if transfers:
        yield _of_a_transfer(found, transfers[0], numbers)
        return
    by_threads = programs is not None and _from_two_threads(programs)
    for group in programs.timeline.groups if programs is not None else ():
        assert programs is not None
        last = {rank: issued for rank, issued in group.last.items() if issued.seq == group.top}
        if (
            len({issued.op for issued in last.values()}) == 1
            and len({shape(issued.calls) for issued in last.values()}) > 1
        ):
            yield _finding(programs, group, Mismatch(kind=MismatchKind.SHAPE, seq=group.top, issued=last), by_threads)
            return
    stood = _stood(found, programs)
    lines = vote({rank: one for rank, (one, _) in stood.items()})
    elsewhere = lines.minority if len(lines.sides) > 1 and all(map(in_its_call, found)) else ()
    if errors:
        remedy = exception_context.REMEDY
    elif by_threads:
        remedy = GROUP_OF_ITS_OWN
    elif elsewhere:
        remedy = OF_TWO_LINES
    else:
        remedy = COMPARE_THE_LINES if calls is not None else RUN_IT_AGAIN
    yield RULE.finding(
        f"{who(found)} received {numbers['got']} bytes in a collective where {numbers['wanted']} were expected: shapes, dtypes "
        "or the collectives themselves differ between ranks",
        ranks=[rank for rank, _ in errors] or elsewhere,
        where=[
            *exception_context.where(errors),
            *(where for failure in found for where in failure.where()),
            *(() if stood else _lost_it(failures)),
            *(
                Where.at(place, rank=rank, note=note)
                for rank, (place, note) in sorted(stood.items(), key=lambda one: (one[0] not in elsewhere, one[0]))
            ),
        ],
        details=[*exception_context.sentences(errors), *((FROM_TWO_THREADS,) if by_threads else ())],
        remedy=remedy,
        received_bytes=int(numbers["got"]),
        expected_bytes=int(numbers["wanted"]),
    )


def _of_a_transfer(found: Sequence[Failure], transfer: AbortedTransfer, numbers: re.Match[str]) -> Finding:
    """A rank that received more of one partner than its buffer holds: either of the two may have the wrong size."""
    rank, partner, sent = transfer.rank, transfer.partner, transfer.sent
    return RULE.finding(
        f"rank {rank} received {numbers['got']} bytes from rank {partner} where {numbers['wanted']} were expected: their shapes "
        f"or dtypes differ, or they are halves of different transfers{tie_note(tied=True)}",
        ranks=sorted((rank, partner)),
        where=[
            *(where for failure in found if failure.rank == rank for where in failure.where("was here")),
            *([Where.at(sent.place, rank=partner, note=f"{sent.op} to rank {rank}")] if sent.place is not None else ()),
        ],
        remedy=COMPARE_THE_LINES,
        received_bytes=int(numbers["got"]),
        expected_bytes=int(numbers["wanted"]),
    )


def _lost_it(failures: Failures) -> Iterator[Where]:
    """The lines of the ranks that were in a call when gloo aborted their peer, as the log shows them."""
    for failure in failures.all:
        if failure.secondary_error is SecondaryError.PEER_GONE:
            yield from failure.where("was here")


def _stood(found: Sequence[Failure], programs: ProgramComparison | None) -> dict[int, tuple[Frame, str]]:
    """The line of each rank that gloo aborted from a thread of its own, and of the call that the others were in.

    Such a rank takes its recorder with it, and faulthandler has its stack. Nothing where it has none.
    """
    aborted = {
        failure.rank: (place, "was here")
        for failure in found
        if failure.rank is not None and (place := users_frame(failure.exit.native_stack)) is not None
    }
    groups = programs.timeline.groups if programs is not None else ()
    waiting = {
        rank: (issued.place, issued.name)
        for group in groups
        if not group.name
        for rank, issued in group.last.items()
        if issued.seq == group.top and issued.place is not None
    }
    return {**waiting, **aborted} if aborted else {}


def _by_recorder(programs: ProgramComparison, explained: set[tuple[str, int]]) -> Iterator[Finding]:
    """`told` are the calls (group, number) that are known to be two different ones on two sides, or consequences of others."""
    for group in programs.timeline.groups:
        mismatch = group.mismatches.get(MismatchKind.SHAPE)
        if mismatch is not None and not any(name == group.name and seq <= mismatch.seq for name, seq in explained):
            yield _finding(programs, group, mismatch)


def _from_two_threads(programs: ProgramComparison) -> bool:
    """Whether a rank whose record is left called one group from two threads in turns."""
    records = programs.timeline.call_index.records.values()
    return any(True for record in records for _ in groups_in_turns(record))


def _finding(
    programs: ProgramComparison, group: GroupTimeline, mismatch: Mismatch, by_threads: bool = False
) -> Finding:
    gave = {rank: agreed_shape(issued.calls) for rank, issued in mismatch.issued.items()}
    sides = vote(gave)
    if sides.tied:
        deviation = decide(programs, group, mismatch.seq, gave, lambda call: agreed_shape((call,)))
        if deviation is not None:
            sides = replace(sides, minority=deviation.ranks)
    by_shape = grouped(
        (of_shape(shape(mismatch.issued[rank].calls)), rank)
        for rank in (*sides.minority, *(rank for rank in gave if rank not in sides.minority))
    )
    (first, its), *others = by_shape.items()
    name = mismatch.issued[its[0]].name
    rest = " and ".join(f"{group_ranks(ranks)} {text}" for text, ranks in others)
    lines = {issued.place for issued in mismatch.issued.values() if issued.place is not None}
    exchanged = reordered(group, programs.timeline, mismatch.seq, (its[0], others[0][1][0])) if others else 0
    order = f": these ranks made the same {exchanged} calls in different orders" if exchanged else ""
    if by_threads:
        remedy: str | None = GROUP_OF_ITS_OWN
    elif exchanged:
        remedy = IN_ONE_ORDER
    else:
        remedy = OF_TWO_LINES if len(lines) > 1 else None
    return RULE.finding(
        f"{group_ranks(its)} gave {name} a tensor of shape {first}, {rest}{aftermath(group, mismatch)}{order}",
        ranks=sides.minority,
        where=witnesses(mismatch.issued, tuple(rank for ranks in by_shape.values() for rank in ranks)),
        details=[
            *unplaced(mismatch.issued, tuple(rank for ranks in by_shape.values() for rank in ranks)),
            *((FROM_TWO_THREADS,) if by_threads else ()),
        ],
        remedy=remedy,
        seq=mismatch.seq,
        group=group.name or "default",
        shapes={str(rank): of_shape(shape(issued.calls)) for rank, issued in sorted(mismatch.issued.items())},
        more=mismatch.more,
    )

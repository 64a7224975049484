"""Ranks gave one collective tensors of shapes that do not belong together."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ddpdoctor.analysis import handled
from ddpdoctor.analysis.agreement import Disagreement, shape
from ddpdoctor.analysis.desync import Desyncs
from ddpdoctor.analysis.failures import Failures, who
from ddpdoctor.analysis.iterations import Iterations
from ddpdoctor.analysis.known_errors import Echo
from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.signatures import signatures_of
from ddpdoctor.analysis.timeline import Clash, GroupTimeline, Timeline
from ddpdoctor.analysis.watchdog import Watchdogs
from ddpdoctor.analysis.wording import aftermath, unplaced, witnesses
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, Handled
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks

RULE = Rule(
    code="DDP302",
    name="collective-shape-mismatch",
    summary="ranks gave one collective tensors of different shapes",
    severity=Severity.FAIL,
    remedy="give it the same shape on every rank: pad, or exchange the sizes first (all_gather of the sizes)",
    explains=("DDP307", "DDP314", "DDP318", "DDP408"),
)
OF_TWO_LINES = (
    "these are two calls of your code that met, and not one: see how these ranks came to different lines (a loop left early, a "
    "call that only some make) before you look at shapes"
)
RUN_IT_AGAIN = "run it again under `ddpdoctor watch`, or give the flight recorders to `ddpdoctor diagnose`"
SHOWN_TENSORS = 3

_SIZES = re.compile(r"op\.preamble\.length <= op\.nbytes\. (?P<got>\d+) vs (?P<wanted>\d+)")


def check(
    timeline: Timeline | None,
    desyncs: Desyncs | None,
    iterations: Iterations | None,
    failures: Failures | None,
    watchdogs: Watchdogs | None,
    calls: PerRank[CollectiveCalls] | None,
) -> Iterator[Finding]:
    """The first collective of each group with shapes that differ, the ranks by shape, and whether it went unnoticed.

    Where the recorders show nothing amiss, gloo's own words: the ranks that received another amount than they expected,
    and what TORCH_DISTRIBUTED_DEBUG=DETAIL refused before it reached a recorder. Without recorders, the last words of NCCL's
    watchdogs.
    """
    if timeline is None and failures is None:
        raise SkipCheck("no FlightRecord, and nobody saw a rank end")
    if timeline is not None:
        told = {(desync.group.name, desync.seq) for desync in desyncs.found} if desyncs is not None else set()
        yield from _by_recorder(timeline, told)
    parted = iterations is not None and iterations.out_of_step is not None
    amiss = parted or (timeline is not None and any(group.clashes for group in timeline.groups))
    if failures is not None and not amiss and not (desyncs is not None and desyncs.found):
        yield from _refused(failures)
        yield from _by_words(failures, timeline, handled.errors_at_the_end(calls))
    if timeline is None and watchdogs is not None:
        yield from _by_watchdogs(watchdogs)


def _refused(failures: Failures) -> Iterator[Finding]:
    told = signatures_of(failures.of(RULE.code))
    if told is not None:
        yield RULE.finding(
            f"{told.about_to('give {name} a tensor of shape [{shape}]')}, and PyTorch refused",
            ranks=told.sides.odd,
            where=told.where,
        )


def _by_watchdogs(watchdogs: Watchdogs) -> Iterator[Finding]:
    met = watchdogs.sizes()
    if met is not None:
        sides = vote({rank: one.numel for rank, one in met.items()})
        (first, *_), *_ = told = sides.sides[::-1]
        rest = " and ".join(f"{group_ranks(ranks)} {met[ranks[0]].numel}" for ranks in told[1:])
        yield RULE.finding(
            f"{group_ranks(told[0])} gave {met[first].name} {met[first].numel} elements, {rest}, as their watchdogs say",
            ranks=sides.odd,
            elements={str(rank): one.numel for rank, one in sorted(met.items())},
        )


def _by_words(failures: Failures, timeline: Timeline | None, errors: list[tuple[int, Handled]]) -> Iterator[Finding]:
    found = [failure for failure in failures.all if failure.echo is Echo.MISMATCHED]
    told = next((sizes for failure in found if (sizes := _SIZES.search(failure.words))), None)
    if told is None:
        return
    for group in timeline.groups if timeline is not None else ():
        last = {rank: made for rank, made in group.last.items() if made.seq == group.top}
        if len({made.op for made in last.values()}) == 1 and len({shape(made.calls) for made in last.values()}) > 1:
            yield _finding(group, Clash(kind=Disagreement.SHAPE, seq=group.top, made=last))
            return
    yield RULE.finding(
        f"{who(found)} received {told['got']} bytes in a collective where {told['wanted']} were expected: shapes, dtypes or "
        "the collectives themselves differ between ranks",
        ranks=[rank for rank, _ in errors],
        where=[*handled.where(errors), *(where for failure in found for where in failure.where())],
        details=handled.told(errors),
        remedy=handled.REMEDY if errors else RUN_IT_AGAIN,
        received_bytes=int(told["got"]),
        expected_bytes=int(told["wanted"]),
    )


def _by_recorder(timeline: Timeline, told: set[tuple[str, int]]) -> Iterator[Finding]:
    """`told` are the calls (group, number) that are known to be two different ones on two sides."""
    for group in timeline.groups:
        clash = group.clashes.get(Disagreement.SHAPE)
        if clash is not None and not any(name == group.name and seq <= clash.seq for name, seq in told):
            yield _finding(group, clash)


def _finding(group: GroupTimeline, clash: Clash) -> Finding:
    sides = vote({rank: shape(made.calls) for rank, made in clash.made.items()})
    by_shape: dict[str, list[int]] = {}
    for rank in (*sides.odd, *sides.usual):
        by_shape.setdefault(_spoken(shape(clash.made[rank].calls)), []).append(rank)
    (first, its), *others = ((spoken, ranks) for spoken, ranks in by_shape.items())
    name = clash.made[its[0]].name
    rest = " and ".join(f"{group_ranks(ranks)} {spoken}" for spoken, ranks in others)
    lines = {made.place for made in clash.made.values() if made.place is not None}
    return RULE.finding(
        f"{group_ranks(its)} gave {name} a tensor of shape {first}, {rest}{aftermath(group, clash)}",
        ranks=sides.odd,
        where=witnesses(clash.made, (*sides.odd, *sides.usual)),
        details=unplaced(clash.made, (*sides.odd, *sides.usual)),
        remedy=OF_TWO_LINES if len(lines) > 1 else None,
        seq=clash.seq,
        group=group.name or "default",
        shapes={str(rank): _spoken(shape(made.calls)) for rank, made in sorted(clash.made.items())},
        more=clash.more,
    )


def _spoken(shapes: tuple[tuple[tuple[int, ...], ...], ...]) -> str:
    tensors = [tensor for call in shapes for tensor in call]
    shown = " + ".join(f"[{', '.join(map(str, tensor))}]" for tensor in tensors[:SHOWN_TENSORS])
    return shown + (f" + {len(tensors) - SHOWN_TENSORS} more" if len(tensors) > SHOWN_TENSORS else "") or "none"

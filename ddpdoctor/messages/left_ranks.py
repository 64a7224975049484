"""How the ranks of a desync left: the statements, values and errors that show it, and what may have been instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.groups.desync import Desync, skips
from ddpdoctor.analysis.collectives.loops.batch_departures import DepartureKind
from ddpdoctor.analysis.collectives.loops.loop_departures import LoopDeparture
from ddpdoctor.analysis.collectives.places.conditions_above import condition_over
from ddpdoctor.analysis.collectives.places.framework_requests import rank_requests
from ddpdoctor.analysis.collectives.places.rank_tests import tells_ranks_apart
from ddpdoctor.analysis.crashes import exception_context
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls, Handled, RankExit
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.messages import early_ends, framework_requests, loop_departures, rank_values, ways_out
from ddpdoctor.messages.collectives import names, unplaced
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.model import Where, group_ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenOfRanks:
    """What is known of the ranks beside the calls that differ."""

    steps: Mapping[int, int]
    """The optimizer steps of each rank, where they are known."""
    exits: PerRank[RankExit] | None
    """How ranks ended."""
    calls: PerRank[CollectiveCalls] | None
    """What ranks called, by their agents."""
    code: SourceCode | None
    """The source of the lines on their stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftRanks:
    """What shows how the ranks of a desync left."""

    departure: LoopDeparture | None
    """Where they left their loop, by the batches that they drew."""
    called: list[Where]
    """What they called to end, of ranks that ended."""
    out_of_loops: list[Where]
    """The statements by which these may have left the loops around their last forward."""
    jumps: list[Where]
    """The statements by which the ranks may have left the loops that the others are in."""
    continues: list[Where]
    """The only statement that cuts a turn of these loops short, where none leads out of them."""
    lengths: list[Where]
    """The values that depend on the rank and say how long a loop is."""
    errors: list[tuple[int, Handled]]
    """The errors that they handled then."""
    longer: tuple[int, ...]
    """The few ranks that make more turns than all others; empty where it was the few that left."""


def left_ranks(desync: Desync, last: LoopDeparture | None, seen: SeenOfRanks) -> LeftRanks:
    """What shows how the ranks of a desync left; `last` is where the loops of the job first diverged."""
    departure = last if last is not None and _is_departure_of(last, desync) else None
    called = early_ends.left_by(seen.exits, desync.ended)
    bounded = rank_values.end_a_loop(desync.issued, desync.majority, seen.code)
    jumps: list[Where] = []
    if departure is not None:
        jumps = [*loop_departures.where(departure)]
    elif not bounded:
        jumps = [*ways_out.of_desync(desync, seen.code)]
    alone = departure is None and not (called or bounded or jumps)
    hidden = departure is not None or called or bounded
    return LeftRanks(
        departure=departure,
        called=called,
        out_of_loops=[] if hidden else [*ways_out.of_ended(desync, seen.calls, seen.code)],
        jumps=jumps,
        continues=[*ways_out.only_continue(desync, seen.code)] if alone else [],
        lengths=[*rank_values.where(desync.issued, desync.majority, desync.minority[0], seen.code)],
        errors=exception_context.errors_of(seen.calls, desync),
        longer=_longer(desync, departure),
    )


def details(desync: Desync, left: LeftRanks, code: SourceCode | None) -> Iterator[str]:
    """The sentences about how they left, and about what may have been instead."""
    if left.departure is not None:
        yield loop_departures.sentence(left.departure)
    yield from exception_context.sentences(left.errors)
    yield from unplaced(desync.issued, (*desync.minority, *desync.majority))
    if not left.errors:
        yield from _or_skipped_of(desync, left.departure, left.longer, code)
    if left.departure is None or left.departure.how is not DepartureKind.SHORT:
        yield from _or_called_alone(desync, code)


def _is_departure_of(last: LoopDeparture, desync: Desync) -> bool:
    """Whether the ranks of this desync left their loop for good as `last` has it."""
    for_good = not last.went_on or (last.how is DepartureKind.SHORT and bool(desync.ended))
    return last.ranks == desync.minority and for_good


def _or_skipped_of(
    desync: Desync, departure: LoopDeparture | None, longer: Sequence[int], code: SourceCode | None
) -> Iterator[str]:
    """That the ranks may have skipped a batch, where nothing shows that they had fewer."""
    if departure is None or departure.how is DepartureKind.ENDED:
        yield from early_ends.or_skipped(desync.minority, () if desync.ended and not longer else skips(desync, code))


def _longer(desync: Desync, gone: LoopDeparture | None) -> tuple[int, ...]:
    """The few ranks that make more turns than their peers; nobody where these left the loop before its end."""
    if gone is not None and gone.how is DepartureKind.LEFT:
        return ()
    return (gone.longer if gone is not None else ()) or desync.more_turns


def _or_called_alone(desync: Desync, code: SourceCode | None) -> Iterator[str]:
    """Where an outer loop leads back into that one, ranks behind it may be on time, in a call that the others passed over."""
    if not desync.comparison.again or desync.ended or not all(side[0] in desync.issued for side in _both(desync)):
        return
    ours, theirs = (desync.issued[side[0]].program for side in _both(desync))
    found = condition_over(tuple(frame for frame in ours if frame not in theirs), code)
    if found is not None and not tells_ranks_apart(found[0]):
        condition, frame = found
        yield (
            f"or {group_ranks(desync.minority)} did not leave it early, and alone made {names(desync.issued, desync.minority)}, "
            f"{condition_text(condition, frame.file)} (DDP305); "
            "the numbers of turns decide: print them before this call on every rank"
        )


def _both(desync: Desync) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return desync.minority, desync.majority


def asked_to_stop(code: SourceCode | None, ranks: Sequence[int], others: Sequence[int]) -> Iterator[Where]:
    """The statements under a test of the rank by which these `ranks`, and not the `others`, asked for an end of the loop."""
    for asked in rank_requests(code, "stop"):
        made = asked.made_by(sorted({*ranks, *others}))
        yield from framework_requests.where(asked, [rank for rank in ranks if not made or rank in made])

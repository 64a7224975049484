"""Which ranks asked their framework, under a test of the rank, for a call that not all ranks make, or to stop."""

from __future__ import annotations

import re
from dataclasses import replace

from ddpdoctor.analysis.collectives.groups.desync import Cause, Desync
from ddpdoctor.analysis.collectives.places.framework_requests import rank_requests
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.source import SourceCode


def by_calls_requested(desync: Desync, code: SourceCode | None) -> Desync:
    """Of two calls below one line of the user's: whether a statement under a test of the rank asked the framework for one.

    A function that the statement hands over must be above that call.
    """
    ranks = (*desync.minority, *desync.majority)
    programs = {rank: desync.issued[rank].program for rank in ranks}
    if programs[desync.minority[0]] == programs[desync.majority[0]]:
        return desync
    for asked in rank_requests(code, "call"):
        made_by = asked.made_by(sorted(ranks))
        sides = (desync.minority, desync.majority) if desync.tied else (desync.minority,)
        untold = () if desync.tied or made_by else desync.minority
        by = made_by if made_by in sides else untold
        handed = re.findall(r"[\w.]+", asked.request.text)
        others = {frame.function for rank in ranks if rank not in by for frame in programs[rank]}
        ours = {frame.function for rank in by for frame in programs[rank]} - others
        takes_a_function = asked.request.text.partition("(")[0].endswith(("add_event_handler", "add_callback"))
        if by and (not takes_a_function or ours.intersection(name.rpartition(".")[2] for name in handed)):
            return replace(
                desync,
                cause=Cause.EXTRA,
                minority=tuple(by),
                majority=tuple(rank for rank in sorted(ranks) if rank not in by),
                tied=False,
                comparison=Comparison(Relation.CONDITIONAL, condition=asked.condition, frame=asked.frame),
                request=asked,
            )
    return desync


def by_stop_requested(desync: Desync, calls: PerRank[CollectiveCalls] | None, code: SourceCode | None) -> Desync:
    """Whether ranks asked their framework, by a test of the rank, to stop, and only the others still train.

    Asked of two equal sides, and of few ranks whose call is behind the training.
    """
    if (
        not (desync.tied or desync.cause in (Cause.EXTRA, Cause.MISMATCH))
        or desync.offset is not None
        or not desync.issued
    ):
        return desync
    ranks = tuple(sorted(desync.issued))
    for asked in rank_requests(code, "stop"):
        stopped = asked.made_by(ranks)
        training = tuple(rank for rank in ranks if rank not in stopped)
        is_decided = desync.tied or stopped == desync.minority
        if stopped and is_decided and _only_these_train(training, desync, calls):
            return replace(
                desync,
                cause=Cause.LEFT,
                minority=stopped,
                majority=training,
                tied=False,
                comparison=Comparison(Relation.PAST),
                request=asked,
            )
    return desync


def _only_these_train(training: tuple[int, ...], desync: Desync, calls: PerRank[CollectiveCalls] | None) -> bool:
    """Whether these ranks, and no others, are in a function that calls forwards, of the user's or of a framework."""
    trains = {
        (frame.file, frame.function)
        for entry in calls or ()
        for forward in entry.value.forwards[-1:]
        for frame in (forward.place, *forward.stack)
    }
    within = {
        rank: trains & {(frame.file, frame.function) for frame in issued.program}
        for rank, issued in desync.issued.items()
    }
    left = {function for rank, functions in within.items() if rank not in training for function in functions}
    return bool(training) and all(within[rank] - left for rank in training)

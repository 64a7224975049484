"""What to do about a collective that some ranks call and the others do not, by the test that tells them apart."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import PurePath

from ddpdoctor.analysis.collectives.places.rank_tests import asks_for_counts, tells_ranks_apart
from ddpdoctor.analysis.collectives.places.relations import Comparison
from ddpdoctor.evidence.source import DESTRUCTOR

OF_COUNTS = (
    "let every rank make this call equally often, or none (all_reduce what decides it); what was trained since is "
    "not to be trusted"
)
OF_A_CONTINUE = (
    "let all ranks decide together whether to pass over a turn of the loop (all_reduce the decision), or none"
)
OF_A_VALUE = (
    "let all ranks decide together: all_reduce what the `if` at {place} tests, and test the result on every rank"
)
OF_A_CACHE = (
    "make this call outside of the cached function, or ask it for the same things on every rank: a rank that asked before gets "
    "the answer from its cache"
)
OF_A_DESTRUCTOR = (
    "take this call out of `__del__` and make it in the training code: an object is freed when nothing refers to it, which is "
    "not at the same time on all ranks"
)
OF_A_SIGNAL = (
    "call no collective in the handler of a signal: a signal does not reach all ranks, nor at the same point of the program; set "
    "a flag in the handler, and let all ranks decide behind a step (all_reduce the flag)"
)
OF_A_BARRIER = (
    "call the barrier on every rank: take it out of the `if` at {place}; or delete it, if no rank needs to wait for what "
    "this one does"
)


def by_the_test(comparison: Comparison, own_calls: Collection[str]) -> str | None:
    """What to change about the test around the call; None where the rule's own remedy says it.

    `own_calls` are the operations that the ranks at fault made alone; empty where they left calls out.
    """
    condition, frame = comparison.condition, comparison.frame
    if condition is None or frame is None or asks_for_counts(condition.test):
        return None
    place = f"{PurePath(frame.file).name}:{condition.line}"
    if tells_ranks_apart(condition):
        return OF_A_BARRIER.format(place=place) if {*own_calls} == {"barrier"} else None
    if condition.is_cache:
        return OF_A_CACHE
    if condition.test == DESTRUCTOR:
        return OF_A_DESTRUCTOR
    if condition.handles_a_signal:
        return OF_A_SIGNAL
    return OF_A_VALUE.format(place=place) if condition.is_if else None

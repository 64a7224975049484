"""Ranks that all wait in one call while the others of the job have ended with exit code 0: inferred from stacks alone."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.places.conditions_above import callers, shared_rank_test
from ddpdoctor.analysis.collectives.places.rank_tests import selects_ranks
from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import BACKWARD, FORWARD, POINT_TO_POINT, Activity
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, program_frames
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.source import Condition, SourceCode
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import SkipCheck

_WAITS = (Activity.COLLECTIVE, Activity.RENDEZVOUS, Activity.STORE)
_OF_A_STEP = frozenset({FORWARD, BACKWARD})


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedPeers:
    """The two sides. Which of them is at fault is a matter of the rules."""

    ended: tuple[int, ...]
    """The ranks that ended with exit code 0."""
    waiting: tuple[RankActivity, ...]
    """All others: they wait in one call, which may be `init_process_group`, and none moves."""
    test: tuple[Condition, Frame] | None = None
    """The test of the rank that these wait under, and not those that ended, and the line under it.

    None where the test does not separate the two, in a backward, as both branches of a test may train, in a rendezvous, which
    all ranks must join, and for a key of the store, which one rank sets.
    """
    few_wait: bool = False
    """Whether the ranks that make the call are the fewer, so that it is one too many."""

    @property
    def join(self) -> bool:
        """Whether they wait for the others to join, in `init_process_group`."""
        return all(one.kind is Activity.RENDEZVOUS for one in self.waiting)

    @property
    def ask_the_store(self) -> bool:
        """Whether they wait for a key of the store, of which no recorder knows."""
        return all(one.kind is Activity.STORE for one in self.waiting)

    @property
    def operations(self) -> str:
        """`in backward or forward`, `for a key of the store`."""
        if self.ask_the_store:
            return "for a key of the store"
        return f"in {' or '.join(sorted({one.operation for one in self.waiting}))}"


def derive(
    activities: Activities, exits: PerRank[RankExit] | None, stacks: PerRank[Stacks] | None, code: SourceCode | None
) -> EndedPeers:
    """The ranks that ended and those that wait.

    Raises:
        SkipCheck: no rank ended with exit code 0, or not all others wait in one call.
    """
    living = {one.rank for one in activities.each}
    ended = tuple(entry.rank for entry in exits or () if entry.value.exit_code == 0 and entry.rank not in living)
    if not ended:
        raise SkipCheck("no rank is known to have ended before the others")
    waits = all(one.kind in _WAITS and one.stands_still for one in activities.each)
    asks = all(one.kind is Activity.STORE for one in activities.each)  # for what only a rank that ended can set
    if not waits or not (asks or _is_one_call({one.operation for one in activities.each})):
        raise SkipCheck("not all ranks that still run wait in one collective, or for the others to join")
    paths = [program_frames(entry.value.main.frames if entry.value.main else ()) for entry in stacks or ()]
    may_part = (Activity.RENDEZVOUS, Activity.STORE)
    tests_nothing = any(one.operation == BACKWARD or one.kind in may_part for one in activities.each)
    test = shared_rank_test(paths, code) if not tests_nothing else None
    who = callers(test, living, ended, [*living, *ended])
    readable = test is not None and selects_ranks(test[0].test)
    is_decided = who.agrees or (not readable and who.few and len(living) < len(ended))
    return EndedPeers(ended=ended, waiting=activities.each, test=test if is_decided else None, few_wait=who.few)


def _is_one_call(operations: AbstractSet[str]) -> bool:
    """Whether ranks that wait in these wait for the same: in several, or in a send or receive, they may wait for each other."""
    alike = len(operations) == 1 or operations <= _OF_A_STEP
    return alike and not any(POINT_TO_POINT.search(operation) for operation in operations)

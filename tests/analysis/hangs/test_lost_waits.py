"""Ring buffers that have lost what a rank waits in first: a circle of the later waits proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.derivation import derived
from ddpdoctor.engine import diagnose
from tests.flight_records import Did, flights, record, waits

PAIR = (0, 1)


@pytest.mark.parametrize(("lost", "reason"), [(0, Reason.CYCLE), (8, Reason.NOT_KEPT)])
def test_ranks_that_wait_for_each_other_are_a_deadlock_if_each_shows_its_first_wait(lost: int, reason: Reason) -> None:
    one = record([waits(Did("all_reduce", group="1", members=PAIR))], world=2, waited=500.0, lost=lost)
    other = record([waits(Did("all_reduce", group="2", members=PAIR))], world=2, waited=500.0)
    evidence = flights(one, other)
    graph = derived(evidence, WaitForGraph)
    assert graph is not None
    assert graph.reason is reason
    assert bool(diagnose(evidence).findings) is (reason is Reason.CYCLE)


@pytest.mark.parametrize(("came", "reason"), [(4, Reason.NOT_KEPT), (9, Reason.STANDING)])
def test_a_batch_stands_only_if_all_partners_have_come_as_far(came: int, reason: Reason) -> None:
    """Ranks 0 to 2 pass data round in batches; rank 0 has come to batch `came`, and waits for rank 3 elsewhere."""

    def batch(rank: int, number: int, *, done: bool) -> list[tuple[Did, int]]:
        halves = [
            Did("send", peers=(rank, (rank + 1) % 3)),
            Did("recv", peers=((rank - 1) % 3, rank)),
            Did("coalesced", peers=(0, 1)),
        ]
        return [(one if done else waits(one), number) for one in halves]

    others = Did("all_reduce", group="1", members=(0, 3))
    made = [
        [*batch(0, came, done=True), (waits(others), 1)],
        *([*batch(rank, 8, done=True), *batch(rank, 9, done=False)] for rank in (1, 2)),
        [(waits(Did("all_reduce")), 1)],
    ]
    each = []
    for calls in made:
        one = record([did for did, _ in calls], world=4, waited=500.0, lost=90)
        each.append(replace(one, seq=tuple(number for _, number in calls)))
    graph = derived(flights(*each), WaitForGraph)
    assert graph is not None
    assert graph.reason is reason


@pytest.mark.parametrize(
    ("held", "lost", "reason"), [(2, 9, Reason.STANDING), (1, 9, Reason.NOT_KEPT), (1, 3, Reason.STANDING)]
)
def test_a_call_behind_one_that_is_complete_is_the_first_that_a_rank_waits_in(
    held: int, lost: int, reason: Reason
) -> None:
    """The watchdog of rank 0 has noted three calls of eight; its ring holds the last of the others, or not.

    Where three calls are lost in all, the fourth of the group is not: the dump has dropped what it lacks.
    """
    step, own = Did("all_reduce", group="1", members=PAIR), Did("all_gather", group="2", members=PAIR)
    made = [own, *([step] * (held - 1)), waits(step)]
    short = record(made, world=2, waited=500.0, lost=lost)
    groups = [replace(one, last_enqueued=9, last_completed=3 if one.name == "1" else 9) for one in short.groups]
    short = replace(short, groups=tuple(groups), seq=(9, *range(10 - held, 10)))
    other = replace(short, lost=0, groups=tuple(replace(one, last_completed=None) for one in short.groups))
    graph = derived(flights(short, other), WaitForGraph)
    assert graph is not None
    assert graph.reason is reason

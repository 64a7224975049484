"""Ring buffers that have lost what a rank waits in first: a circle of the later waits proves nothing."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.engine import derived, diagnose
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

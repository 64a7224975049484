"""A thread that calls collectives of a group of its own: what it called last tells nothing of what the main thread left out."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ddpdoctor.engine import diagnose
from tests.flight_records import STEP, Did, flights, waits

OF_THE_THREAD = Did("all_gather", group="1")
WORLD = 4


def _made(steps: Sequence[int], *, last_step: bool) -> list[Did]:
    """Four steps, with `steps[n]` of them before call `n` of the thread; then its third call, and the step that peers wait in."""
    made: list[Did] = []
    for before in steps:
        made += [STEP] * (before - sum(one is STEP for one in made))
        made.append(OF_THE_THREAD)
    made += [STEP] * (4 - sum(one is STEP for one in made))
    return [*made, waits(STEP), OF_THE_THREAD] if last_step else [*made, OF_THE_THREAD]


@pytest.mark.parametrize(
    ("other_orders", "code"), [([[1, 2], [2, 2], [1, 3]], "DDP307"), ([[1, 2], [1, 2], [1, 2]], "DDP305")]
)
def test_a_rank_whose_thread_went_on_has_left_no_call_out(other_orders: list[list[int]], code: str) -> None:
    """Where all ranks made the calls of both groups in one order, a rank that goes on without a call has left it out."""
    others = [_made(order, last_step=True) for order in other_orders]
    finding = diagnose(flights(_made([1, 2], last_step=False), *others)).findings[0]
    assert (finding.code, [*finding.ranks]) == (code, [0])

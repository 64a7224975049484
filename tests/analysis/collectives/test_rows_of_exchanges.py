"""all_to_all of one tensor: ranks send each other any number of rows, and rows of one size."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from tests.flight_records import STEP, Did, flights, waits


def exchange(*row: int, sent: int = 64, received: int = 64, done: bool = True) -> Did:
    return Did("all_to_all", sizes=((sent, *row),), outputs=((received, *row),), done=done)


def named(*made: list[Did]) -> list[tuple[str, tuple[int, ...]]]:
    return [(finding.code, finding.ranks) for finding in diagnose(flights(*made)).findings]


@pytest.mark.parametrize("other", [exchange(8, sent=3, received=99), exchange(8, sent=0), exchange(sent=0, received=0)])
def test_ranks_that_send_other_numbers_of_rows_agree(other: Did) -> None:
    """A rank without a row may give an empty tensor of any shape."""
    assert named(*[[exchange(8), STEP]] * 3, [other, STEP]) == []


def test_rows_of_another_size_are_a_mismatch() -> None:
    assert named(*[[STEP, exchange(8, done=False)]] * 3, [STEP, exchange(9, done=False)]) == [("DDP302", (3,))]


def test_a_rank_that_left_an_exchange_out_is_found_by_the_rows_of_the_next_one() -> None:
    """Heads are exchanged before attention and after it, with rows of two sizes: numbers alone agree."""
    step = [exchange(8), exchange(8), exchange(9)]
    waiting = [*step, *step, exchange(8), waits(exchange(8)), waits(exchange(9)), waits(STEP)]
    left_out = [*waiting[:7], *waiting[8:]]
    assert named(*[waiting] * 3, left_out) == [("DDP305", (3,))]


def test_rows_of_one_size_are_one_side_however_many_each_rank_sends() -> None:
    others = [[STEP, exchange(8, sent=60 + rank, done=False)] for rank in range(3)]
    assert named(*others, [STEP, exchange(sent=4, received=4, done=False)]) == [("DDP302", (3,))]

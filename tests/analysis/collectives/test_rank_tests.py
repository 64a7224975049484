"""Which rank a branch of a test leaves out, and which ranks come to it."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.collectives.places.rank_tests import exempted_rank, ranks_under
from ddpdoctor.evidence.source import Condition


@pytest.mark.parametrize(
    ("test", "branch", "exempted", "under"),
    [
        ("rank != 2", 0, 2, (0, 1, 3)),
        ("rank == 2", 1, 2, (0, 1, 3)),  # the `else`, or behind `if rank == 2: continue`
        ("rank == 2", 0, None, (2,)),
        ("rank != 2", 1, None, (2,)),
        ("not is_main_process()", 0, 0, (1, 2, 3)),
        ("is_main_process()", 1, 0, (1, 2, 3)),
        ("is_main_process()", 0, None, (0,)),
        ("rank == 2 and step == 7", 1, 2, (0, 1, 3)),
        ("step % 10 == 0", 1, None, ()),
    ],
)
def test_the_branches_of_a_test_of_the_rank(
    test: str, branch: int, exempted: int | None, under: tuple[int, ...]
) -> None:
    condition = Condition(line=1, test=test, branch=branch)
    assert exempted_rank(condition) == exempted
    assert ranks_under(condition, range(4)) == under

"""A rank that gave up in a call has come to it, also where its recorder lacks the calls of DDP."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from tests.flight_records import STEP, record, waits
from tests.rank_ends import ended, gave_up


@pytest.mark.parametrize(
    ("seq_of_rank_0", "never_came"),
    [(41, ()), (38, (0, 2))],
)
def test_nobody_who_gave_up_in_the_one_call_never_came_to_it(seq_of_rank_0: int, never_came: tuple[int, ...]) -> None:
    ends = ended(gave_up(0, seq=seq_of_rank_0), gave_up(1), gave_up(2))
    records = [record([STEP, *([waits(STEP)] if rank == 1 else [])], world=3) for rank in range(3)]
    evidence = replace(
        ends, ranks=tuple(replace(entry, facts=(*entry.facts, records[entry.rank])) for entry in ends.ranks)
    )
    found = {finding.code: finding.ranks for finding in diagnose(evidence).findings}
    assert found["DDP408"] == never_came

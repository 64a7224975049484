"""The rows of a dump's table of statuses whose groups no entry names: other ranks with the same groups tell them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.collectives.group_numbers import with_statuses
from ddpdoctor.evidence import Entry, PerRank
from ddpdoctor.evidence.recorder import FlightRecord, GroupStatus, ProcessGroup
from tests.flight_records import STEP, record


def of_groups(numbers: dict[str, int | None], *rows: GroupStatus) -> FlightRecord:
    """The record of a rank with groups of these descriptions and numbers; `rows` are those of its table without a group."""
    groups = tuple(
        ProcessGroup(
            backend="nccl", name=description, description=description, ranks=(0, 1), number=number, last_enqueued=1
        )
        for description, number in numbers.items()
    )
    return replace(record([STEP]), groups=groups, statuses=rows)


@pytest.mark.parametrize(("ends", "number"), [({}, 1), ({"EMBEDDING": 2}, None)])
def test_a_rank_with_other_groups_does_not_tell_the_number_of_one(ends: dict[str, int], number: int | None) -> None:
    """Rank 0 has groups 0 and 1 in its table, as rank 1; where it is in one group more, its 1 may be another group."""
    row = GroupStatus(number=1, last_enqueued=7, last_completed=7)
    first = of_groups({"WORLD": 0, **dict.fromkeys(ends), "CHECKPOINT": None}, row)
    second = of_groups({"WORLD": 0, "CHECKPOINT": 1})
    told = with_statuses(PerRank((Entry(0, "host-a", first), Entry(1, "host-a", second)), launched=(0, 1)))
    found = next(group for group in told.entries[0].value.groups if group.name == "CHECKPOINT")
    assert (found.number, found.last_enqueued) == (number, 7 if number is not None else 1)

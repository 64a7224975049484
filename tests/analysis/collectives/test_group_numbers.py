"""The rows of a dump's table of statuses whose groups no entry names: other ranks with the same groups tell them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.collectives.recorders.group_numbers import with_statuses
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


def rank_of(number_of: dict[str, int | None], members: dict[str, tuple[int, ...]]) -> FlightRecord:
    """The record of a rank with groups without a description; its table has a row for each without a number."""
    groups = tuple(
        ProcessGroup(backend="nccl", name=name, description="", ranks=members[name], number=number)
        for name, number in number_of.items()
    )
    left = {*range(len(groups))} - {*number_of.values()}
    rows = (GroupStatus(number=number, last_enqueued=10 + number, last_completed=10) for number in sorted(left))
    return replace(record([STEP]), groups=groups, statuses=tuple(rows))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (("0", "7", "9", "11"), [0, 1, 2, 3]),  # names that torch counts are in the order of creation
        (("0", "beef", "cafe", "fade"), [0, None, None, 3]),  # two of one size and distance: either may be the first
    ],
)
def test_a_group_that_no_entry_names_is_told_by_the_size_and_distance_of_its_members(
    names: tuple[str, ...], told: list[int | None]
) -> None:
    """Rank 0 has calls of all of its groups left, rank 4 of the first alone."""
    first = {"0": (*range(8),), "a": (0, 2), "b": (0, 2), "c": (0, 1, 2, 3)}
    second = dict(zip(names, ((*range(8),), (4, 6), (4, 6), (4, 5, 6, 7)), strict=True))
    records = {
        0: rank_of(dict(zip(first, range(4), strict=True)), first),
        4: rank_of({name: 0 if name == "0" else None for name in names}, second),
    }
    entries = tuple(Entry(rank, "host-a", one) for rank, one in records.items())
    groups = with_statuses(PerRank(entries, launched=(0, 4))).entries[1].value.groups
    assert [group.number for group in groups] == told
    assert [group.last_enqueued for group in groups if group.number] == [10 + number for number in told if number]


@pytest.mark.parametrize(
    ("numbers", "rows", "told"),
    [
        ({"9": None, "12": 4, "100": None}, (0, 7), [0, 4, 7]),  # as many rows as groups: their numbers may have gaps
        ({"9": None, "12": None, "100": None}, (0, 4, 7), [0, 4, 7]),
        ({"9": None, "12": 1, "100": None}, (2,), [None, 1, 2]),  # the first was not used
        ({"9": None, "12": 2, "100": None}, (1,), [None, 2, None]),
        ({"9": None, "12": None, "100": None}, (1,), [None, None, None]),
        ({"9": None, "beef": 4, "cafe": None}, (0, 7), [None, 4, None]),
    ],
)
def test_names_that_are_numbers_tell_the_rows_of_their_groups_in_one_dump(
    numbers: dict[str, int | None], rows: tuple[int, ...], told: list[int | None]
) -> None:
    """Both are given in the order of creation."""
    mine = of_groups(numbers, *(GroupStatus(number=row, last_enqueued=7, last_completed=7) for row in rows))
    found = with_statuses(PerRank((Entry(0, "host-a", mine),), launched=(0,)))
    assert [group.number for group in found.entries[0].value.groups] == told

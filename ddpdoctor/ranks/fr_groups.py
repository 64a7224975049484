"""The process groups of a flight-recorder dump: what its entries and its tables of groups and statuses say of them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ddpdoctor.evidence.recorder import GroupStatus, ProcessGroup
from ddpdoctor.whole_numbers import integers, whole_number

SHARED = 1 << 10  # groups that are kept to be shared: the ranks of a job have the same
MAX_RANKS_TEXT = 2_000_000  # the list of 200,000 ranks; a longer one is not of this world
_LIST_OF_NUMBERS = re.compile(r"""["'\[]*[\d, ]*[\]"']*""")  # some writers quote it
_NUMBER = re.compile(r"\d+")


class UsedGroup(NamedTuple):
    """What entries and tables say of a group."""

    backend: str
    """Such as `nccl`; empty where nothing tells."""
    name: str
    """The group's name, the same on all its ranks."""
    description: str
    """What the program or PyTorch called it, such as `default_pg`."""
    number: str | None
    """Its number as in the table of statuses; None where none is known."""


def description_of(told: object) -> str:
    """The description of a group; empty where PyTorch has none."""
    return "" if told == "undefined" else str(told)


def groups_of(
    groups: Mapping[UsedGroup, int], document: Mapping[str, Any], halves: Mapping[int, int]
) -> tuple[ProcessGroup, ...]:
    """The groups that were used, in order of their first calls, then the others that the dump's own tables list.

    `halves` has by position of a group what `issued_halves` tells of it. Of groups with one name the tables describe the one
    that was used last: a program destroyed the others.
    """
    config, status = document.get("pg_config", {}), document.get("pg_status", {})
    config = config if isinstance(config, Mapping) else {}
    used = {group.name: group.number for group in groups}
    numbers = _numbered(config, status, used)
    backend = next((group.backend for group in groups), "")
    unused = [
        UsedGroup(backend, name, description_of(one.get("desc", "")), numbers.get(name))
        for name, one in config.items()
        if name and isinstance(name, str) and isinstance(one, Mapping) and name not in used
    ]
    return tuple(
        _group(
            group.backend,
            group.name,
            group.description,
            _number(group.number),
            _members(config.get(group.name)) if group.number == used.get(group.name, group.number) else None,
            _counted(status, group.number, "last_enqueued_collective"),
            _counted(status, group.number, "last_completed_collective"),
            halves.get(position),
        )
        for position, group in enumerate((*groups, *unused))
    )


def statuses_of(status: object, groups: Sequence[ProcessGroup]) -> tuple[GroupStatus, ...]:
    """The rows of the table of statuses that are of none of the groups with a known number, where a group has none."""
    known = {group.number for group in groups}
    if None not in known or not isinstance(status, Mapping):
        return ()
    return tuple(
        GroupStatus(
            number=number,
            last_enqueued=_counted(status, row, "last_enqueued_collective"),
            last_completed=_counted(status, row, "last_completed_collective"),
        )
        for row in status
        if isinstance(row, str) and (number := whole_number(row)) is not None and number not in known
    )


@lru_cache(maxsize=SHARED)
def _group(
    backend: str,
    name: str,
    description: str,
    number: int | None,
    ranks: tuple[int, ...] | None,
    last_enqueued: int | None,
    last_completed: int | None,
    halves: int | None,
) -> ProcessGroup:
    """One object for all ranks of a group that have come as far."""
    return ProcessGroup(
        backend=backend,
        name=name,
        description=description,
        number=number,
        ranks=ranks,
        last_enqueued=last_enqueued,
        last_completed=last_completed,
        halves=halves,
    )


def _numbered(config: Mapping[Any, Any], status: object, used: Mapping[str, str | None]) -> dict[str, str]:
    """The number of each group of this rank in the table of statuses, which knows no names: both are in order of creation."""
    names = sorted((name for name in config if isinstance(name, str) and _whole(name) is not None), key=int)
    rows = status if isinstance(status, Mapping) else ()
    numbers = sorted(number for row in rows if (number := _whole(row)) is not None)
    found = dict(zip(names, map(str, numbers), strict=False))
    if len(names) != len(numbers) or not used.items() <= found.items():
        return {}
    return found


def _number(group: str | None) -> int | None:
    return whole_number(group) if group is not None else None


def _members(row: object) -> tuple[int, ...] | None:
    ranks = row.get("ranks") if isinstance(row, Mapping) else None
    if isinstance(ranks, str):
        return _listed(ranks) if len(ranks) <= MAX_RANKS_TEXT else None
    return integers(ranks) or None if isinstance(ranks, list | tuple) else None


@lru_cache(maxsize=SHARED)
def _listed(text: str) -> tuple[int, ...] | None:
    """The ranks in `[0, 1, 2]`: every rank of a job writes the same text, so that reading it costs the square of their number."""
    ranks = [whole_number(number) for number in _NUMBER.findall(text)] if _LIST_OF_NUMBERS.fullmatch(text) else []
    known = tuple(rank for rank in ranks if rank is not None)
    return known if known and len(known) == len(ranks) else None


def _counted(status: object, group: str | None, key: str) -> int | None:
    row = status.get(group) if isinstance(status, Mapping) else None
    value = row.get(key) if isinstance(row, Mapping) else None
    return _whole(value)


def _whole(value: object) -> int | None:
    """The number that a writer gave as such or as a text; None where it is none that fits into 64 bits."""
    if isinstance(value, str):
        return whole_number(value)
    return value if isinstance(value, int) and 0 <= value < 1 << 63 else None

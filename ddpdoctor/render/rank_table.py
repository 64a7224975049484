"""The ranks of a running job as a table, for `ddpdoctor top`: the ranks to look at are marked, and the table fits its space."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.quoting import quoted

GIB = 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of the table."""

    title: str
    """Its header, and what `sort` calls it."""
    cell: Callable[[RankStatus], str]
    """The text of a rank's cell."""
    key: Callable[[RankStatus], Any]
    """What rows are sorted by."""
    from_width: int = 0
    """Columns of the terminal below which it is left out; 0 for one that is always shown."""
    right: bool = True
    """Whether cells are aligned at the right."""


COLUMNS = (
    Column(title="rank", cell=lambda one: str(one.rank), key=lambda one: one.rank),
    Column(title="host", cell=lambda one: one.host[:14], key=lambda one: one.host, from_width=110, right=False),
    Column(title="pid", cell=lambda one: str(one.pid), key=lambda one: one.pid),
    Column(title="state", cell=lambda one: one.state, key=lambda one: one.state, right=False),
    Column(title="line", cell=lambda one: one.line, key=lambda one: one.line, from_width=74, right=False),
    Column(title="step", cell=lambda one: _number(one.steps), key=lambda one: one.steps or 0),
    Column(
        title="step/s",
        cell=lambda one: "" if one.steps_per_second is None else f"{one.steps_per_second:.3g}",
        key=lambda one: one.steps_per_second or 0.0,
        from_width=90,
    ),
    Column(
        title="late ms",
        cell=lambda one: "" if one.late_seconds is None else f"{1e3 * one.late_seconds:.1f}",
        key=lambda one: -(one.late_seconds or 0.0),
    ),
    Column(
        title="cpu %",
        cell=lambda one: "" if one.cpu_share is None else f"{100 * one.cpu_share:.0f}",
        key=lambda one: -(one.cpu_share or 0.0),
    ),
    Column(
        title="mem G",
        cell=lambda one: "" if one.memory_bytes is None else f"{one.memory_bytes / GIB:.1f}",
        key=lambda one: -(one.memory_bytes or 0),
        from_width=80,
    ),
    Column(title="gpu", cell=lambda one: one.gpu, key=lambda one: one.gpu, from_width=100),
    Column(
        title="idle s",
        cell=lambda one: "" if one.idle_seconds is None else f"{one.idle_seconds:.0f}",
        key=lambda one: -(one.idle_seconds or 0.0),
    ),
)
SORTS = ("rank", "step", "late ms", "cpu %", "idle s")


def in_order(statuses: Sequence[RankStatus], sort: str) -> list[RankStatus]:
    """The ranks sorted by the column with this title, those that need attention first where it is not `rank`."""
    key = next(column.key for column in COLUMNS if column.title == sort)
    return sorted(statuses, key=lambda one: (key(one), one.rank))


def table(statuses: Sequence[RankStatus], marked: Collection[int], *, width: int, selected: int | None = None) -> Table:
    """The ranks in the order given, with the columns that fit into `width`; `selected` is shown inverted."""
    shown = [column for column in COLUMNS if width >= column.from_width and _has(column, statuses)]
    built = Table(box=None, pad_edge=False, expand=False, padding=(0, 2, 0, 0), header_style="bold")
    built.add_column("")
    for column in shown:
        built.add_column(
            column.title, justify="right" if column.right else "left", no_wrap=True, overflow="ellipsis",
            max_width=24 if column.title in ("state", "line") else None,
        )  # fmt: skip
    for one in statuses:
        style = "bold red" if one.rank in marked else ""
        cells = [Text(quoted(column.cell(one)), style=style) for column in shown]
        built.add_row(
            Text("▶" if one.rank in marked else "", style=style),
            *cells,
            style="reverse" if one.rank == selected else None,
        )
    return built


def _has(column: Column, statuses: Sequence[RankStatus]) -> bool:
    """Whether any rank has something in this column; what every row has is always shown."""
    return column.title in ("rank", "pid", "state") or any(column.cell(status) for status in statuses)


def _number(value: int | None) -> str:
    return "" if value is None else str(value)

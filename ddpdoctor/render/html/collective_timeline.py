"""The collectives of each process group, rank by rank, around the point where the ranks diverged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ddpdoctor.analysis.collectives.groups.desync import Desync, Desyncs
from ddpdoctor.analysis.collectives.recorders.timeline import GroupTimeline, IssuedCall, Timeline
from ddpdoctor.derivation import Deriver
from ddpdoctor.grouping import grouped
from ddpdoctor.model import group_ranks, verb

SHOWN_CALLS = 7
BEFORE = 4  # of these before the divergence, where calls follow it
SHOWN_GROUPS = 4
ALL_RANKS_UP_TO = 16  # beyond, ranks that did the same share a line
SHOWN_ROWS = 48
COLORS = 6

# pixels
COLUMN, ROW, TOP, LEFT, RIGHT = 92, 30, 46, 150, 320


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineCell:
    """One call of the ranks of a row."""

    column: int
    """Its place in the row, 0 for the first sequence number shown."""
    state: str
    """`done`, `open` (not complete), `absent` (never called) or `unknown` (not recorded)."""
    label: str = ""
    """The operation, cut to 14 characters; empty without a call."""
    color: int = 0
    """Which of the page's six colors stands for the operation."""
    hint: str = ""
    """The call in full, shown while the pointer is on the cell."""

    @property
    def x(self) -> int:
        """Its left edge."""
        return LEFT + self.column * COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRow:
    """Ranks that made the same calls."""

    number: int
    """Its place from above, 0 for the first."""
    ranks: tuple[int, ...]
    """The ranks, sorted."""
    minority: bool
    """Whether they are the ranks at fault."""
    cells: tuple[TimelineCell, ...]
    """One per sequence number shown."""
    last: str
    """What they do at the end: the call that they wait in, or their last one, with its line."""

    @property
    def y(self) -> int:
        """Its upper edge."""
        return TOP + self.number * ROW

    @property
    def who(self) -> str:
        """`rank 3`, `ranks 0-2,5`, shortened where there are too many to read."""
        text = group_ranks(self.ranks)
        return text if len(text) <= 20 else f"{len(self.ranks)} ranks ({text.split()[1][:7]}…)"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPicture:
    """One process group: a column for each sequence number, a row for each rank or set of ranks that did the same."""

    name: str
    """The group's name, or `default process group`."""
    backend: str
    """Such as `nccl`."""
    members: str
    """Its ranks as a text, `ranks 0-3`."""
    sentence: str
    """What the picture shows, for readers who do not see it."""
    first: int
    """The sequence number of the first column."""
    columns: int
    """How many sequence numbers are shown."""
    diverged: int | None
    """The sequence number at which ranks diverged; None where they wait in the same call."""
    rows: tuple[TimelineRow, ...]
    """The minority before the others where not all fit, then by rank."""
    more_rows: int
    """How many rows did not fit."""

    @property
    def width(self) -> int:
        """In pixels."""
        return LEFT + self.columns * COLUMN + RIGHT

    @property
    def height(self) -> int:
        """In pixels."""
        return TOP + len(self.rows) * ROW + 12

    @property
    def end(self) -> int:
        """Where the columns end."""
        return LEFT + self.columns * COLUMN

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """The sequence numbers with the middle of their columns."""
        return [(self.first + place, LEFT + place * COLUMN + COLUMN // 2) for place in range(self.columns)]

    @property
    def diverged_x(self) -> int | None:
        """The left edge of the column of the divergence."""
        return None if self.diverged is None else LEFT + (self.diverged - self.first) * COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class TimelineSection:
    """The groups that say most."""

    groups: tuple[GroupPicture, ...]
    """Those in which ranks diverged first, then those in which ranks are behind or wait."""
    more_groups: int
    """How many process groups have no picture."""
    operations: tuple[tuple[str, int], ...]
    """Each operation that is shown, with the number of its color."""


def timeline_section(derive: Deriver) -> TimelineSection | None:
    """The pictures of up to four groups; None without flight recorders."""
    timeline, desyncs = derive(Timeline), derive(Desyncs)
    if timeline is None:
        return None
    diverged: dict[int, Desync] = {}
    for desync in desyncs.found if desyncs is not None else ():
        diverged.setdefault(id(desync.group), desync)
    groups = sorted(
        timeline.groups,
        key=lambda group: (id(group) not in diverged, not group.behind, not group.open, timeline.groups.index(group)),
    )
    colors: dict[str, int] = {}
    pictures = tuple(_picture(timeline, group, diverged.get(id(group)), colors) for group in groups[:SHOWN_GROUPS])
    return TimelineSection(
        groups=pictures, more_groups=max(0, len(groups) - SHOWN_GROUPS), operations=tuple(colors.items())
    )


def _picture(timeline: Timeline, group: GroupTimeline, desync: Desync | None, colors: dict[str, int]) -> GroupPicture:
    at = desync.seq if desync is not None else group.awaited
    last = min(max(group.top, at), max(1, at - BEFORE) + SHOWN_CALLS - 1)
    first = max(1, last - SHOWN_CALLS + 1)
    minority = set(desync.culprits if desync is not None and not desync.tied else ())
    if desync is None and group.behind and 2 * len(group.behind) < len(group.recorded):
        minority = {*group.behind}
    rows = list(_rows(timeline, group, range(first, last + 1), minority, colors))
    shown = sorted(sorted(rows, key=lambda row: not row.minority)[:SHOWN_ROWS], key=lambda row: row.ranks)
    numbered = tuple(
        TimelineRow(number=number, ranks=row.ranks, minority=row.minority, cells=row.cells, last=row.last)
        for number, row in enumerate(shown)
    )
    return GroupPicture(
        name=group.name or "default process group",
        backend=group.backend,
        members=group_ranks(group.members),
        sentence=" ".join(_sentence(group, desync, first, last)),
        first=first,
        columns=last - first + 1,
        diverged=at if desync is not None else None,
        rows=numbered,
        more_rows=len(rows) - len(shown),
    )


def _rows(
    timeline: Timeline, group: GroupTimeline, numbers: Sequence[int], minority: set[int], colors: dict[str, int]
) -> Iterator[TimelineRow]:
    alike: dict[tuple[object, ...], list[int]] = {}
    found: dict[int, TimelineRow] = {}
    for rank in group.members:
        cells = tuple(_cells(timeline, group, rank, numbers, colors))
        row = TimelineRow(number=0, ranks=(rank,), minority=rank in minority, cells=cells, last=_last(group, rank))
        found[rank] = row
        apart = rank if len(group.members) <= ALL_RANKS_UP_TO else 0
        key = (apart, row.minority, row.last, *((cell.state, cell.label) for cell in cells))
        alike.setdefault(key, []).append(rank)
    for ranks in alike.values():
        first = found[ranks[0]]
        yield TimelineRow(number=0, ranks=tuple(ranks), minority=first.minority, cells=first.cells, last=first.last)


def _cells(
    timeline: Timeline, group: GroupTimeline, rank: int, numbers: Sequence[int], colors: dict[str, int]
) -> Iterator[TimelineCell]:
    reached = group.reached(rank)
    for column, seq in enumerate(numbers):
        issued = timeline.issued(group, rank, seq)
        if issued is None:
            absent = rank in group.recorded and seq > reached
            yield TimelineCell(
                column=column,
                state="absent" if absent else "unknown",
                hint=f"rank {rank} never called #{seq}" if absent else f"#{seq} of rank {rank} is not recorded",
            )
            continue
        color = colors.setdefault(issued.op, len(colors) % COLORS)
        label = issued.op if len(issued.op) <= 14 else f"{issued.op[:13]}…"
        yield TimelineCell(
            column=column,
            state="done" if issued.done else "open",
            label=label,
            color=color,
            hint=_hint(issued),
        )


def _hint(issued: IssuedCall) -> str:
    """`rank 1: broadcast #128, shape 1, not complete, train.py:7 in validate`."""
    sizes = ["x".join(map(str, size)) or "scalar" for size in _sizes(issued)]
    parts = [
        f"rank {issued.rank}: {issued.op} #{issued.seq}",
        *([f"shape {', '.join(sizes[:3])}"] if sizes else []),
        "complete" if issued.done else "not complete",
        *([_spot(issued)] if issued.place is not None else []),
    ]
    return ", ".join(parts)


def _sizes(issued: IssuedCall) -> list[tuple[int, ...]]:
    return [size for call in issued.calls for size in call.input_sizes]


def _spot(issued: IssuedCall) -> str:
    place = issued.place
    return f"{PurePath(place.file).name}:{place.line} in {place.function}" if place is not None else ""


def _last(group: GroupTimeline, rank: int) -> str:
    waits = group.open.get(rank)
    if waits is not None:
        seconds = f" for {waits.seconds:.1f} s" if waits.seconds is not None else ""
        return f"waits{seconds}, {_spot(waits)}".rstrip(", ")
    if rank not in group.recorded:
        return "no recorder"
    last = group.last.get(rank)
    return f"last call #{last.seq}, {_spot(last)}".rstrip(", ") if last is not None else "no call"


def _sentence(group: GroupTimeline, desync: Desync | None, first: int, last: int) -> Iterator[str]:
    if desync is not None:
        called = grouped((issued.op, rank) for rank, issued in desync.issued.items())
        if len(called) == 1:  # of equal names the lines tell them apart
            called = grouped((f"{one.op} at {_spot(one)}", rank) for rank, one in desync.issued.items() if one.place)
        each = "; ".join(f"{group_ranks(ranks)} called {call}" for call, ranks in called.items())
        yield (
            f"The ranks diverged at #{desync.seq}: {each}."
            if len(called) > 1
            else f"The ranks diverged at #{desync.seq}."
        )
    elif group.open:
        yield f"{group_ranks([*group.open])} {verb(group.open, 'waits', 'wait')} in #{group.awaited}."
    else:
        yield "All recorded calls are complete."
    if first > 1 or last < group.top:
        yield f"Shown are calls #{first} to #{last} of {group.top}."
    behind = [rank for rank in group.behind if desync is None]
    if behind:
        yield f"{group_ranks(behind)} never called #{group.awaited}."

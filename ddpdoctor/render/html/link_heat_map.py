"""The links between nodes as a heat map: one row per source, one column per target."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.network.link_speeds import is_slow, median_speed
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.links import Links, NodeLink
from ddpdoctor.render.link_matrix import LETTERS

LARGEST = 64  # nodes; of more, those with a failed or slow link are shown
NUMBERS_UP_TO = 16  # nodes: beyond, a cell is too small for its number
LEVELS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """One direction between two nodes."""

    x: int
    """The left edge, in pixels: the column of the node that receives."""
    y: int
    """The upper edge, in pixels: the row of the node that sends."""
    level: str
    """`failed`, `slow`, `none` (not measured), or 0 to 4 by speed."""
    text: str
    """The speed in Gbit/s, the letter of a failure, or empty."""
    hint: str
    """The nodes and what was measured, shown while the pointer is on the cell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkSection:
    """The picture of all links, and those that failed or are slow as a list."""

    names: tuple[str, ...]
    """The hosts in the order of the rows, and of the columns."""
    cells: tuple[HeatCell, ...]
    """One per direction that was tested between nodes shown."""
    cell: int
    """Pixels from one node to the next."""
    numbers: bool
    """Whether cells are large enough to show their speed."""
    left: int
    """Pixels in front of the first column, for the names."""
    top: int
    """Pixels above the first row."""
    median: str
    """The median speed in Gbit/s, or `not measured`."""
    sentence: str
    """How many nodes and directions were tested, and how many failed or are slow."""
    listed: tuple[tuple[str, str, str], ...]
    """Of each failed or slow link the sender, the receiver and the result."""
    more: int
    """How many failed or slow links are not listed."""

    @property
    def width(self) -> int:
        """In pixels."""
        return self.left + self.cell * len(self.names) + 8

    @property
    def height(self) -> int:
        """In pixels."""
        return self.top + self.cell * len(self.names) + 8


def link_section(evidence: Evidence) -> LinkSection | None:
    """The heat map; None where fewer than two nodes were measured."""
    links = evidence.one(Links)
    if links is None or len(links.nodes) < 2:
        return None
    median = median_speed(links.links)
    failed_or_slow = [
        link for link in links.links if link.outcome != "ok" or (median is not None and is_slow(link, median))
    ]
    numbers = [node.node for node in links.nodes]
    if len(numbers) > LARGEST:
        involved = {number for link in failed_or_slow for number in (link.source, link.target)}
        numbers = [*sorted(involved)[:LARGEST], *(number for number in numbers if number not in involved)][:LARGEST]
        numbers.sort()
    places = {number: place for place, number in enumerate(numbers)}
    shows_numbers = len(numbers) <= NUMBERS_UP_TO
    cell = 46 if shows_numbers else 16
    names = tuple(links.name(number) for number in numbers)
    left = min(220, 20 + 7 * max(len(name) for name in names))
    cells = tuple(
        _cell(link, links, median, left + cell * places[link.target], 30 + cell * places[link.source])
        for link in links.links
        if link.source in places and link.target in places
    )
    failed = sum(link.outcome != "ok" for link in links.links)
    slow = len(failed_or_slow) - failed
    return LinkSection(
        names=names,
        cells=cells,
        cell=cell,
        numbers=shows_numbers,
        left=left,
        top=30,
        median=_gbit(median),
        sentence=(
            f"{len(links.nodes)} nodes, {len(links.links)} directions tested in {links.rounds} rounds: {failed} failed, "
            f"{slow} slow; the median is {_gbit(median)} Gbit/s."
        ),
        listed=tuple(
            (links.name(link.source), links.name(link.target), _words(link)) for link in failed_or_slow[:LARGEST]
        ),
        more=max(0, len(failed_or_slow) - LARGEST),
    )


def _cell(link: NodeLink, links: Links, median: float | None, x: int, y: int) -> HeatCell:
    hint = f"{links.name(link.source)} to {links.name(link.target)}: {_words(link)}"
    if link.outcome != "ok":
        return HeatCell(x=x, y=y, level="failed", text=LETTERS.get(link.outcome, "!"), hint=hint)
    speed = link.bytes_per_second
    if speed is None or median is None:
        return HeatCell(x=x, y=y, level="none", text="", hint=hint)
    if is_slow(link, median):
        return HeatCell(x=x, y=y, level="slow", text=_gbit(speed), hint=hint)
    level = min(LEVELS - 1, int(LEVELS * speed / (2 * median)))
    return HeatCell(x=x, y=y, level=str(level), text=_gbit(speed), hint=hint)


def _words(link: NodeLink) -> str:
    if link.outcome != "ok":
        return f"{link.outcome}{': ' + link.detail if link.detail else ''}"
    latency = f", {1e6 * link.latency_seconds:.0f} us" if link.latency_seconds is not None else ""
    return f"{_gbit(link.bytes_per_second)} Gbit/s{latency}"


def _gbit(bytes_per_second: float | None) -> str:
    if bytes_per_second is None:
        return "not measured"
    gbit = bytes_per_second * 8e-9
    return f"{gbit:.2f}" if gbit < 10 else f"{gbit:.1f}" if gbit < 100 else f"{gbit:.0f}"

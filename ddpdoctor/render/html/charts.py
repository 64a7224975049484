"""Line charts as numbers: axes with ticks, and points in pixels, for a template to draw."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 62, 16, 14, 46
MOST_TICKS = 8

Style = Literal["line", "dashed", "dots"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis with the values that are marked on it."""

    text: str
    """The quantity, with its unit."""
    low: float
    """The value at its beginning; above 0 where the axis is logarithmic."""
    high: float
    """The value at its end."""
    ticks: tuple[tuple[float, str], ...]
    """The values that are marked, each with its text."""
    log: bool = False
    """Whether equal distances are equal factors."""

    def share(self, value: float) -> float:
        """Where on the axis a value is, from 0 to 1."""
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        at = math.log(max(value, self.low)) if self.log else value
        return (at - low) / (high - low) if high > low else 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One curve."""

    name: str
    """What the legend calls it."""
    points: Sequence[tuple[float, float]]
    """Its points, in the units of the axes."""
    color: int
    """The number of its color in the style sheet, from 0."""
    style: Style = "line"
    """Measured values as a line or dots, computed ones dashed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture with two axes."""

    title: str
    """The caption."""
    sentence: str
    """What the picture shows, for readers who do not see it."""
    x: Axis
    """The horizontal axis."""
    y: Axis
    """The vertical axis."""
    series: tuple[Series, ...]
    """The curves, in the order of the legend."""
    width: int = field(default=WIDTH, init=False)
    """Of the picture with its margins, in pixels."""
    height: int = field(default=HEIGHT, init=False)
    """Of the picture with its margins, in pixels."""

    left: int = field(default=LEFT, init=False)
    """The pixel at which the horizontal axis begins."""
    right: int = field(default=WIDTH - RIGHT, init=False)
    """The pixel at which the horizontal axis ends."""
    top: int = field(default=TOP, init=False)
    """The pixel of the vertical axis's end: pixels count from above."""
    bottom: int = field(default=HEIGHT - BOTTOM, init=False)
    """The pixel of the vertical axis's beginning."""

    def at_x(self, value: float) -> float:
        """The pixel of a value on the horizontal axis."""
        return round(self.left + self.x.share(value) * (self.right - self.left), 1)

    def at_y(self, value: float) -> float:
        """The pixel of a value on the vertical axis."""
        return round(self.bottom - self.y.share(value) * (self.bottom - self.top), 1)

    def pixels(self, series: Series) -> list[tuple[float, float]]:
        """The points of a curve in pixels."""
        return [(self.at_x(x), self.at_y(y)) for x, y in series.points]

    def path(self, series: Series) -> str:
        """The points of a curve for an SVG polyline."""
        return " ".join(f"{x},{y}" for x, y in self.pixels(series))


def linear_axis(text: str, values: Iterable[float], *, from_zero: bool = False) -> Axis:
    """An axis around `values` with round ticks; it begins at 0 where asked to."""
    known = [value for value in values if math.isfinite(value)] or [0.0, 1.0]
    low, high = (0.0 if from_zero else min(known)), max(known)
    if high <= low:
        low, high = low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0)
        low = max(low, 0.0) if from_zero else low
    step = _round_step((high - low) / 5)
    low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    count = round((high - low) / step)
    return Axis(
        text=text,
        low=low,
        high=high,
        ticks=tuple((low + step * number, f"{round(low + step * number, 12):g}") for number in range(count + 1)),
    )


def size_axis(text: str, sizes: Sequence[float], shown: Callable[[float], str]) -> Axis:
    """A logarithmic axis whose ticks are the sizes themselves, thinned where there are many."""
    known = sorted(set(sizes))
    every = math.ceil(len(known) / MOST_TICKS)
    ticks = tuple((size, shown(size)) for size in known[::every])
    return Axis(text=text, low=known[0], high=known[-1], ticks=ticks, log=True)


def decade_axis(text: str, values: Sequence[float]) -> Axis:
    """A logarithmic axis from one power of ten to another."""
    known = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(known)) + 1e-9), math.ceil(math.log10(max(known)) - 1e-9)
    high = max(high, low + 1)
    every = math.ceil((high - low + 1) / MOST_TICKS)
    ticks = tuple((10.0**power, f"{10.0**power:g}") for power in range(low, high + 1, every))
    return Axis(text=text, low=10.0**low, high=10.0**high, ticks=ticks, log=True)


def _round_step(rough: float) -> float:
    """The 1, 2 or 5 times a power of ten that is not below `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough * (1 - 1e-9))

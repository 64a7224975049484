"""Finds the lines that write weights, gradients, settings and models beside the wrapped ones, in some audited steps.

These are the first audited step, the second, the fourth, and so on, between the backward and the step, and between the step and
the next forward. Not on Python 3.10, where a trace function may lose what threads write to variables that they share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from ..schema.source_line import SourceLine
from ..trace_writer import TraceWriter
from .optimizer_settings import Options, Settings
from .unwrapped_models import UnwrappedLog
from .write_tracer import Writes

MOST_SECONDS = 0.1  # that lines are looked at in one gap
SETTINGS = "the settings of optimizers"
WEIGHTS = "weights"  # between the step and the next forward
GIVEN_WEIGHTS = "given weights"  # between the backward and the step
GRADIENTS = "gradients"  # likewise


class WriteWatch:
    """Looks on while `is_on`; whoever begins a forward or a step calls `settle` first."""

    def __init__(
        self,
        trace: TraceWriter,
        settings: Settings,
        unwrapped: UnwrappedLog,
        weights: Callable[[], object],
        gradients: Callable[[], object],
    ) -> None:
        self._settings, self._unwrapped, self._weights, self._gradients = settings, unwrapped, weights, gradients
        self._wrote: dict[str, list[SourceLine]] = {}
        self._writes = Writes(trace.observing, most_seconds=MOST_SECONDS)
        self._before: Options = {}  # when the watch began
        self._left: object = None  # the weights when the last watch of this window ended, or when the window began
        self._audits = 0
        self.is_due = False
        """Whether this audited step is one of those."""
        self.is_on = False
        """Whether lines are looked at now."""
        self.is_partial = False
        """Whether weights may have been written in this window, or before it, while no lines were looked at."""

    def audit(self) -> None:
        """An audited step begins."""
        self._audits += 1
        self.is_due = sys.version_info >= (3, 11) and self._audits & (self._audits - 1) == 0
        if self.is_due:
            self._left = self._weights()

    def after_backward(self) -> None:
        """The backward has returned."""
        if self.is_due and not self.is_on:
            self.is_on = True
            self._before = self._settings.options()
            self.is_partial |= self._left != self._weights()
            own = {GIVEN_WEIGHTS: self._weights, GRADIENTS: self._gradients}
            self._writes.watch({SETTINGS: self._settings.options, **own})

    def after_step(self) -> None:
        """The optimizer has stepped."""
        if self.is_due and not self.is_on:
            self.is_on = True
            self._before = self._settings.options()
            own = {SETTINGS: self._settings.options, WEIGHTS: self._weights}
            self._writes.watch({**own, **self._unwrapped.watched()})

    def take(self) -> dict[str, list[SourceLine]]:
        """The lines that wrote weights and gradients since this was asked last: before the forward, and before the step."""
        wrote, self._wrote = self._wrote, {}
        self.is_partial = False
        return wrote

    def settle(self) -> None:
        """Look for the last time, and note what was found."""
        self.is_on = False
        self._writes.settle()
        self.is_partial |= self._writes.ended_early
        self._left = self._weights()
        before, self._before = self._before, {}
        for name, lines in self._writes.take().items():
            if name == SETTINGS:
                self._settings.written(lines[-1], before)
            elif name in {WEIGHTS, GIVEN_WEIGHTS, GRADIENTS}:
                earlier = [line for line in self._wrote.get(name, []) if line not in lines]
                self._wrote[name] = earlier + lines  # after an earlier backward of the same window
            else:
                self._unwrapped.written(name, lines[-1])

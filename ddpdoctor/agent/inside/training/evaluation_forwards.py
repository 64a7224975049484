"""Forwards of wrappers in evaluation mode that may have trained: with gradients, a backward, and a step that follows."""

from __future__ import annotations

import weakref

from torch import nn

from ..schema.source_line import SourceLine

_Forward = tuple["weakref.ref[nn.Module]", int, "SourceLine | None"]  # the wrapper, the number of samples, and the line


class EvaluationForwards:
    """Those of one rank since its last forward in training mode. No wrapper is kept alive."""

    def __init__(self) -> None:
        self.are_there = False
        """Whether there may be any."""
        self._latest: _Forward | None = None
        self.with_backward: list[_Forward] = []
        """Those that a backward followed, since the last step."""

    def forward(self, ddp: nn.Module, samples: int, line: SourceLine | None) -> None:
        """A wrapper in evaluation mode was called with gradients, with so many samples."""
        self.are_there = True
        self._latest = weakref.ref(ddp), samples, line

    def backward(self) -> None:
        """`loss.backward()` was called."""
        if self._latest is not None:
            self.with_backward.append(self._latest)
            self._latest = None

    def trains_otherwise(self) -> None:
        """A wrapper in training mode was called: the step that follows is its own."""
        self.are_there = False
        self._latest = None
        self.with_backward.clear()

    def take(self) -> list[tuple[nn.Module, int, SourceLine | None]]:
        """An optimizer steps: forget those that a backward followed, and return those of wrappers that still exist."""
        forwards, self.with_backward = self.with_backward, []
        return [(ddp, samples, line) for called, samples, line in forwards if (ddp := called()) is not None]

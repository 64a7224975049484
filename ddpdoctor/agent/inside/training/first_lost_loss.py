"""The first backward of a rank whose loss was not finite: one step later every rank's is, and no step tells whose was first."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..schema.source_line import SourceLine
from ..trace_writer import user_line

MOST_UNREAD = 256  # losses on a device, of which each is one small tensor until a step is audited


class FirstLostLoss:
    """Looks at the loss of each backward. One on a device is read with the others of its window, which waits for none of them."""

    def __init__(self) -> None:
        self.step: int | None = None
        """The step that it led to, counted from 0; None while all were finite."""
        self.line: SourceLine | None = None
        """Where its backward was called; None where the loss lay on a device."""
        self._unread: list[tuple[int, Tensor]] = []

    def look_at(self, loss: Tensor, step: int) -> None:
        """`loss.backward()` was called, after so many steps. A tensor of another class, such as a sharded one, is left alone."""
        if self.step is not None or type(loss) is not Tensor or loss.numel() != 1:
            return
        if loss.device.type == "cpu":
            if not math.isfinite(loss.item()):
                self.step, self.line = step, user_line()
        elif loss.device.type == "cuda" and not torch.cuda.is_current_stream_capturing():
            self._unread.append((step, torch.isfinite(loss.detach()).reshape(())))
            if len(self._unread) >= MOST_UNREAD:
                self.read()

    def read(self) -> None:
        """Look at the losses on a device."""
        unread, self._unread = self._unread, []
        if not unread:
            return
        are_finite = torch.stack([is_finite for _, is_finite in unread]).tolist()
        self.step = next((step for (step, _), is_finite in zip(unread, are_finite, strict=True) if not is_finite), None)

"""Which of the batches that a rank draws are iterations of its training."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from .by_identity import ByIdentity

if TYPE_CHECKING:
    from .call_ring import CallRing

MOST_WAITING = 1000  # batches of one pass before the first training forward that are kept


class Draw(NamedTuple):
    """A batch that a data loader has handed out."""

    data_set: int
    """The number of its data set."""
    asked_ns: int
    """When it was asked for."""
    drawn_ns: int
    """When it was handed out."""
    seq: int
    """The number of collectives that the default group had made by then, or `NO_SEQ`."""
    in_pass: int | None
    """How many batches this pass has given; None where it does not count them."""
    of: int | None
    """How many it has; None where that is not known."""


class _Pass:
    """One pass over a data loader; `waiting` are its batches as long as nothing was trained on them."""

    def __init__(self) -> None:
        self.trains = False
        self.waiting: deque[Draw] = deque(maxlen=MOST_WAITING)


class TrainingLoop:
    """The thread that trains, and which batches are its iterations.

    The thread is that of the last training forward, the main one before there was any: one that draws batches ahead of it is
    as far ahead as the moment gives. The iterations are the batches of passes that are trained on: a rank may evaluate alone
    on the data that all train on, or show a batch of them.
    """

    def __init__(self, ring: CallRing) -> None:
        self._ring = ring
        self._thread = threading.main_thread().ident
        self._passes: ByIdentity[_Pass] = ByIdentity()
        self._last: _Pass | None = None
        self._untrained = False  # a batch of a pass that is trained on was drawn, and nothing was trained since
        self._drawn: dict[int, int] = {}

    def is_here(self) -> bool:
        """Whether it runs in this thread."""
        return self._thread == threading.get_ident()

    def trains(self) -> None:
        """Note that this thread makes a training forward or an optimizer step: with the batch that it drew last."""
        self._thread = threading.get_ident()
        last, self._last = self._last, None
        if not self._untrained and last is not None and not last.trains:
            last.trains = True
            for draw in last.waiting:
                self._record(draw)
            last.waiting.clear()
        self._untrained = False

    def steps(self) -> None:
        """Note an optimizer step: a thread beside the one that makes the wrapped model's forwards trains something of its own."""
        if not self._ring.forwards:  # models without a wrapper, as FSDP2's
            self._ring.count_step()
            self.trains()
        elif self.is_here():
            self._ring.count_step()

    def drew(self, iterator: Any, draw: Draw) -> None:  # noqa: ANN401 - of any kind of data loader
        """Note a batch of a pass."""
        drawn = self._passes.get(iterator)
        if drawn is None:
            drawn = _Pass()
            self._passes.put(iterator, drawn)
        self._last = drawn
        if drawn.trains:
            self._untrained = True
            self._record(draw)
        else:
            drawn.waiting.append(draw)
            self._ring.alive()

    def _record(self, draw: Draw) -> None:
        iteration = self._drawn[draw.data_set] = self._drawn.get(draw.data_set, 0) + 1
        self._ring.batch(
            draw.data_set,
            asked_ns=draw.asked_ns,
            drawn_ns=draw.drawn_ns,
            seq=draw.seq,
            iteration=iteration,
            in_pass=draw.in_pass,
            of=draw.of,
        )

"""Which of the batches that a rank draws are iterations of its training."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ..by_identity import ByIdentity

if TYPE_CHECKING:
    from .call_ring import CallRing

MOST_WAITING = 1000  # batches of one pass before the first training forward that are kept


class Draw(NamedTuple):
    """A batch that a data loader has handed out."""

    asked_ns: int
    """When it was asked for."""
    drawn_ns: int
    """When it was handed out."""
    seq: int
    """The number of collectives that the default group had made by then, or `NO_SEQ`."""
    in_pass: int | None
    """How many batches this pass has given; None where it does not count them."""


class Pass:
    """One pass over a data loader; `waiting` are its batches as long as nothing was trained on them."""

    def __init__(self, data_set: int) -> None:
        self.data_set = data_set
        """The number of its data set."""
        self.length: int | None = None
        """How many batches it has; None where that is not known."""
        self.trains = False
        self.waiting: deque[Draw] = deque(maxlen=MOST_WAITING)


class TrainingLoop:
    """The thread that trains, and which batches are its iterations.

    A thread that draws batches ahead of it is as far ahead as the moment gives. The iterations are the batches of passes that
    are trained on: a rank may evaluate alone on the data that all train on, or show a batch of them.
    """

    def __init__(self, ring: CallRing) -> None:
        self._ring = ring
        self._passes: ByIdentity[Pass] = ByIdentity()
        self._last: Pass | None = None
        self._untrained = False  # a batch of a pass that is trained on was drawn, and nothing was trained since
        self._drawn: dict[int, int] = {}

    def is_here(self) -> bool:
        """Whether it runs in this thread."""
        return self._ring.thread.is_here()

    def trains(self) -> None:
        """Note that this thread makes a training forward or an optimizer step: with the batch that it drew last."""
        self._ring.thread.trains()
        last, self._last = self._last, None
        if not self._untrained and last is not None and not last.trains:
            last.trains = True
            for draw in last.waiting:
                self._record(last, *draw)
            last.waiting.clear()
        self._untrained = False

    def steps(self) -> None:
        """Note an optimizer step: a thread beside the one that makes the wrapped model's forwards trains something of its own."""
        if not self._ring.forwards:  # models without a wrapper, as FSDP2's
            self._ring.count_step()
            self.trains()
        elif self.is_here():
            self._ring.count_step()

    def pass_of(self, iterator: Any) -> Pass | None:  # noqa: ANN401 - of any kind of data loader
        """The pass that it makes, as far as it has begun."""
        return self._passes.get(iterator)

    def begins(self, iterator: Any, data_set: int) -> Pass:  # noqa: ANN401 - likewise
        """Note that it begins a pass over the data set of this number."""
        begun = Pass(data_set)
        self._passes.put(iterator, begun)
        return begun

    def drew(self, drawn: Pass, asked_ns: int, seq: int, in_pass: int | None) -> None:
        """Note a batch of a pass, which is handed out now; see `Draw`."""
        self._last = drawn
        now = time.time_ns()
        if drawn.trains:
            self._untrained = True
            self._record(drawn, asked_ns, now, seq, in_pass)
        else:
            drawn.waiting.append(Draw(asked_ns, now, seq, in_pass))
            self._ring.alive()

    def _record(self, drawn: Pass, asked_ns: int, drawn_ns: int, seq: int, in_pass: int | None) -> None:
        data_set = drawn.data_set
        iteration = self._drawn[data_set] = self._drawn.get(data_set, 0) + 1
        self._ring.batch(
            data_set,
            asked_ns=asked_ns,
            drawn_ns=drawn_ns,
            seq=seq,
            iteration=iteration,
            in_pass=in_pass,
            of=drawn.length,
        )

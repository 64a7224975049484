"""Which samples per rank trained on: the indices that its data loaders drew, epoch by epoch, workers included."""

from __future__ import annotations

import base64
import zlib
from array import array
from collections import deque
from collections.abc import Callable, Iterator
from threading import get_ident
from typing import Any

from ..by_identity import ByIdentity
from ..schema.data_records import Epoch, Share
from ..schema.source_line import SourceLine
from ..schema.step_records import BatchPosition
from ..signal_errors import pass_on
from ..trace_writer import TraceWriter, user_line
from .sampler_shares import SamplerShares

MOST_INDICES = 1 << 24  # beyond 16 million samples an epoch is not written down


class LoaderEpoch:
    """One pass over one data loader, as far as the loop went; `place` are its loader and number among those trained on."""

    def __init__(
        self,
        loader: int,
        length: int | None,
        line: SourceLine | None,
        sampler: str,
        data: str = "",
        share: Share | None = None,
        draws: SourceLine | None = None,
    ) -> None:
        self.share, self.draws = share, draws
        self.loader, self.length, self.line, self.sampler, self.data = loader, length, line, sampler, data
        self.place: tuple[int, int] | None = None
        self.drawn: deque[Any] = deque()
        self.indices = array("q")
        self.batches = 0
        self.thread = 0  # that received the last of them
        self.known = True
        self.finished = False

    def consume(self) -> None:
        """The loop received the batch that was drawn first among those it has not received."""
        self.batches += 1
        self.thread = get_ident()
        batch = self.drawn.popleft() if self.drawn else None
        try:
            if isinstance(batch, (list, tuple)):
                self.indices.extend(batch)
            else:
                self.indices.append(batch)  # type: ignore[arg-type]  # or it raises
        except (TypeError, OverflowError) as error:
            pass_on(error)
            self.known = False

    def record(self, loader: int, number: int) -> Epoch:
        """What is written down of it."""
        known = self.known and len(self.indices) <= MOST_INDICES
        return Epoch(
            loader=loader,
            number=number,
            length=self.length,
            batches=self.batches,
            finished=self.finished,
            line=self.line,
            sampler=self.sampler,
            indices=base64.b64encode(zlib.compress(self.indices.tobytes())).decode() if known else None,
            data=self.data,
            share=self.share,
            draws=self.draws,
        )


class Batches:
    """Follows every data loader of this process, and numbers the epochs that are trained on: a rank may evaluate alone."""

    def __init__(self, trace: TraceWriter) -> None:
        self._trace = trace
        self._shares = SamplerShares()
        self._loaders: ByIdentity[int] = ByIdentity()
        self._digest: Callable[[Any], str] = lambda _: ""  # once torch is there, see `install`
        self._data: dict[int, str] = {}  # by loader: the digest of its data set when it was first iterated over
        self._epochs: ByIdentity[LoaderEpoch] = ByIdentity()
        self._count = 0
        self._open: list[LoaderEpoch] = []
        self._current: LoaderEpoch | None = None  # whose batch the loop received last
        self._training: LoaderEpoch | None = None
        self._trained: dict[int, list[int]] = {}  # by loader: its number among those trained on, and that of its epoch
        self.on_end: Callable[[], None] = lambda: None
        """Called where a pass that was trained on has reached its end: perhaps after the last step."""

    @property
    def position(self) -> BatchPosition | None:
        """The batch received last, of the epoch that was trained on last.

        None where another thread receives the batches, ahead of this one: how far ahead is chance.
        """
        epoch = self._training
        if epoch is None or epoch.place is None or epoch.thread != get_ident():
            return None
        return BatchPosition(epoch.place[1], epoch.batches)

    def trained(self) -> None:
        """A model is trained on the batch that the loop received last."""
        epoch = self._training = self._current or self._training
        if epoch is not None and epoch.place is None:
            numbers = self._trained.setdefault(epoch.loader, [len(self._trained), -1])
            numbers[1] += 1
            epoch.place = numbers[0], numbers[1]

    def install(self) -> None:
        """Follow `torch.utils.data.DataLoader`."""
        from torch.utils.data import DataLoader
        from torch.utils.data.dataloader import _BaseDataLoaderIter

        from .data_identity import data_digest

        self._digest = data_digest
        self._shares.install(self._trace)
        observe = self._trace.observing
        started, finished = observe(self._started), observe(self._finished)
        drew = self._trace.counting(self._draws, observe(self._drew))
        received = self._trace.counting(self._receives, observe(self._received))
        iterate: Any = DataLoader.__iter__
        receive: Any = _BaseDataLoaderIter.__next__
        draw: Any = _BaseDataLoaderIter._next_index  # noqa: SLF001 - the only place that knows the indices

        def __iter__(loader: Any) -> Iterator[Any]:  # noqa: ANN401, N807
            iterator: Iterator[Any] = iterate(loader)
            started(loader, iterator)
            return iterator

        def _next_index(iterator: Any) -> Any:  # noqa: ANN401
            index = draw(iterator)
            drew(iterator, index)
            return index

        def __next__(iterator: Any) -> Any:  # noqa: ANN401, N807
            try:
                batch = receive(iterator)
            except StopIteration:
                finished(iterator)
                raise
            received(iterator)
            return batch

        DataLoader.__iter__ = __iter__  # type: ignore[method-assign,assignment]
        _BaseDataLoaderIter._next_index = _next_index  # type: ignore[method-assign]  # noqa: SLF001
        _BaseDataLoaderIter.__next__ = __next__  # type: ignore[method-assign,assignment]

    def close(self) -> None:
        """Write down the epochs that are still open."""
        for epoch in self._open:
            self._write(epoch)
        self._open.clear()

    def _started(self, loader: Any, iterator: Any) -> None:  # noqa: ANN401
        number = self._loaders.get(loader)
        if number is None:
            number = self._count
            self._loaders.put(loader, number)
            self._data[number] = self._digest(loader.dataset)
            self._count += 1
        for epoch in [epoch for epoch in self._open if epoch.loader == number]:
            self._write(epoch)
            self._open.remove(epoch)
        length = len(loader.dataset) if hasattr(loader.dataset, "__len__") else None
        sampler = type(getattr(loader, "sampler", None)).__name__
        share, draws = self._shares.of(loader), self._shares.draws(loader)
        epoch = LoaderEpoch(number, length, user_line(), sampler, self._data[number], share, draws)
        early = self._epochs.get(iterator)
        if early is not None:  # workers are fed before `__iter__` returns
            waiting = getattr(iterator, "_tasks_outstanding", 0)
            epoch.drawn = deque(list(early.drawn)[max(len(early.drawn) - waiting, 0) :])
        self._epochs.put(iterator, epoch)
        self._open.append(epoch)

    def _write(self, epoch: LoaderEpoch) -> None:
        if epoch.place is not None:
            self._trace.write(epoch.record(*epoch.place))

    def _draws(self, iterator: Any, index: Any) -> bool:  # noqa: ANN401
        """Note what a loader drew; returns whether it is known."""
        epoch = self._epochs.get(iterator)
        if epoch is not None:
            epoch.drawn.append(index)
        return epoch is not None

    def _drew(self, iterator: Any, index: Any) -> None:  # noqa: ANN401
        """Likewise, where it is not known yet."""
        epoch = LoaderEpoch(-1, None, None, "")
        self._epochs.put(iterator, epoch)
        epoch.drawn.append(index)

    def _receives(self, iterator: Any) -> bool:  # noqa: ANN401
        """Note that the loop received a batch of indices; returns False where it may be anything else."""
        epoch = self._epochs.get(iterator)
        if epoch is None:
            return True
        batch = epoch.drawn[0] if epoch.drawn else None
        if type(batch) is not list or not batch or type(batch[0]) is not int:
            return False
        epoch.consume()
        self._current = epoch
        return True

    def _received(self, iterator: Any) -> None:  # noqa: ANN401
        epoch = self._epochs.get(iterator)
        if epoch is not None:
            epoch.consume()
            self._current = epoch

    def _finished(self, iterator: Any) -> None:  # noqa: ANN401
        epoch = self._epochs.get(iterator)
        if epoch is not None:
            epoch.finished = True
            if epoch.place is not None:
                self.on_end()

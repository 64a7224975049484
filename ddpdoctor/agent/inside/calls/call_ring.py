"""A rank's own record of its calls, in shared memory: a microsecond to write, and readable whatever becomes of the rank.

The file `PID.ring` is written through `mmap` and so complete after SIGKILL, SIGSTOP, or while another thread holds the GIL.
See `schema.call_ring` for its format.
"""

from __future__ import annotations

import mmap
import os
import time
from struct import Struct

from ..schema import call_ring as layout
from .training_thread import TrainingThread


class CallRing:
    """Writes the file. Every method costs about a microsecond and allocates next to nothing."""

    def __init__(self, path: str, *, rank: int, world_size: int, restart: int) -> None:
        size = layout.HEADER_BYTES + layout.RING * layout.RECORD_BYTES
        with open(path, "w+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a hole in a full file system would be a SIGBUS to write to
            self._map = mmap.mmap(file.fileno(), size)
        local_rank = os.environ.get("LOCAL_RANK", "")
        self._restart, self._launcher = restart, os.getppid()
        self._local_rank = (
            int(local_rank) if local_rank.isdecimal() and len(local_rank) < layout.MOST_DIGITS else layout.NO_RANK
        )
        self.thread = TrainingThread()
        """Which thread trains; the file names the latest one from the next record or step on."""
        self.written = self.steps = self.returned = 0
        self._written_in_training = self._returned_in_training = 0
        self.forwards = 0
        """Training forwards of wrapped models; the file has the number from the next record or step on."""
        self.identify(rank, world_size)
        self._count(time.time_ns())
        layout.PREAMBLE.pack_into(self._map, 0, layout.MAGIC, layout.VERSION)  # last: from here on the file is valid

    def identify(self, rank: int, world_size: int) -> None:
        """Write down which rank this is."""
        identity = (rank, world_size, self._restart, self._local_rank, self._launcher)
        layout.IDENTITY.pack_into(self._map, layout.IDENTITY_OFFSET, *identity)

    def count_step(self) -> None:
        """Count an optimizer step."""
        self.steps += 1
        self._count(time.time_ns())

    def begin_collective(
        self,
        op: int,
        group: int,
        place: int,
        *,
        seq: int,
        root: int = layout.NO_RANK,
        reduce_op: int = 0,
        tensor: int = 0,
    ) -> int:
        """Record that a collective begins; returns what `end` takes."""
        now = time.time_ns()
        fields = now, 0, seq, root, op, group, place, reduce_op, tensor
        return self._add(layout.COLLECTIVE_LAYOUT, layout.COLLECTIVE, now, fields)

    def begin_point_to_point(self, op: int, group: int, place: int, *, peer: int, tag: int, number: int) -> int:
        """Record that a send or receive begins; returns what `end` takes."""
        now = time.time_ns()
        fields = now, 0, tag, number, peer, op, group, place
        return self._add(layout.POINT_TO_POINT_LAYOUT, layout.POINT_TO_POINT, now, fields)

    def begin_new_group(self, members: int, place: int) -> int:
        """Record that a call of `new_group` begins; returns what `end` takes."""
        now = time.time_ns()
        return self._add(layout.NEW_GROUP_LAYOUT, layout.NEW_GROUP, now, (now, 0, members, place))

    def end(self, index: int) -> None:
        """Record that the call with this number has returned, with or without an exception."""
        now = time.time_ns()
        if self.written - index <= layout.RING:
            layout.RETURNED.pack_into(self._map, _offset(index) + layout.RETURNED_OFFSET, now)
        self.returned += 1
        if not self.thread.is_beside():
            self._returned_in_training += 1
        self._count(now)

    def resume(self, index: int) -> None:
        """Record that the rank begins to wait for the call with this number, which had returned before it was complete."""
        if self.written - index <= layout.RING:
            layout.BEGAN_AND_RETURNED.pack_into(self._map, _offset(index) + layout.BEGAN_OFFSET, time.time_ns(), 0)

    def alive(self) -> None:
        """Note that the rank has come further, though nothing is recorded."""
        self._count(time.time_ns())

    def batch(
        self,
        data_set: int,
        *,
        asked_ns: int,
        drawn_ns: int,
        seq: int,
        iteration: int,
        in_pass: int | None,
        of: int | None = None,
    ) -> None:
        """Record a batch that was asked for at `asked_ns` and handed out at `drawn_ns`."""
        counted = layout.NO_COUNT if in_pass is None else in_pass
        length = layout.NO_COUNT if of is None else of
        fields = asked_ns, drawn_ns, seq, iteration, data_set, counted, length
        self._add(layout.BATCH_LAYOUT, layout.BATCH, time.time_ns(), fields)

    def forward(self, place: int, *, seq: int, number: int, turn: int | None, reduces: bool | None = None) -> None:
        """Record that a training forward of a wrapped model begins."""
        now = time.time_ns()
        counted = layout.NO_COUNT if turn is None else turn
        reduced = layout.NO_COUNT if reduces is None else int(reduces)
        self._add(layout.FORWARD_LAYOUT, layout.FORWARD, now, (now, seq, number, counted, place, self.steps, reduced))

    def _add(self, record: Struct, kind: int, now: int, fields: tuple[int, ...]) -> int:
        """Write the next record, and the counters; returns its number."""
        index = self.written
        self.written = index + 1  # taken at once: other threads write, too
        if not self.thread.is_beside():
            self._written_in_training += 1
        offset = layout.HEADER_BYTES + index % layout.RING * layout.RECORD_BYTES
        record.pack_into(self._map, offset, index, kind, *fields)
        self._count(now)
        return index

    def _count(self, now: int) -> None:
        in_training = self._written_in_training, self._returned_in_training, self.thread.os_id
        counters = self.written, self.forwards, self.steps, now, self.returned, *in_training
        layout.COUNTERS.pack_into(self._map, layout.COUNTERS_OFFSET, *counters)


def _offset(index: int) -> int:
    return layout.HEADER_BYTES + index % layout.RING * layout.RECORD_BYTES

"""A rank's own log of what it called, in shared memory: a microsecond to write, and readable whatever becomes of the rank.

The file `PID.strip` is a header and a ring of fixed-size records, written through `mmap` and so complete after SIGKILL,
SIGSTOP, or with the GIL held. Texts (functions, places, groups) stand once, by number, in `PID.names`, one JSON a line.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from typing import NamedTuple

HEADER = struct.Struct("<8sIiiIQQQqQii")
RECORD = struct.Struct("<QqqqqIIIHHBxxx")
MAGIC = b"ddpstrip"
VERSION = 2
RING = 4096  # records; 256 KiB a rank
HEADER_BYTES = 256
NO_ROOT = -1
NO_SEQ = -1
NO_SEAT = -1


class Header(NamedTuple):
    """The counters of a rank. `written` counts records ever made; `last_ns` is when any of the counters last moved.

    `launcher` is the process that started it, `seat` its LOCAL_RANK there, which it keeps when an elastic job is numbered anew.
    """

    magic: bytes
    version: int
    rank: int
    world_size: int
    restart: int
    written: int
    forwards: int
    steps: int
    last_ns: int
    returned: int
    launcher: int = 0
    seat: int = NO_SEAT


class Record(NamedTuple):
    """One call: its place in the order, when it began and returned (0 while it runs), and numbers of texts.

    A mark (the beginning of an iteration) is a record too: `root` then holds the iteration's number, `place` the data set of
    a batch or the line of a forward; a batch was asked for at `began_ns`. In `tensors` a batch has 1 + its number in its pass
    over the data, and a forward 1 + the turn of the loop that it was called in, or 0; a send or receive has its tag there.
    """

    number: int
    began_ns: int
    returned_ns: int
    seq: int
    root: int
    steps: int
    place: int
    tensors: int
    op: int
    group: int
    reduce_op: int


class Strip:
    """The writer's side, in the rank. Every method costs about a microsecond and allocates next to nothing."""

    def __init__(self, path: str, *, rank: int, world_size: int, restart: int) -> None:
        size = HEADER_BYTES + RING * RECORD.size
        with open(path, "w+b") as file:
            os.posix_fallocate(file.fileno(), 0, size)  # a hole in a full file system would be a SIGBUS to write to
            self._map = mmap.mmap(file.fileno(), size)
        self._rank, self._world_size, self._restart = rank, world_size, restart
        seat = os.environ.get("LOCAL_RANK", "")
        self._launcher, self._seat = os.getppid(), int(seat) if seat.isdigit() else NO_SEAT
        self.written = self.forwards = self.steps = self.returned = 0
        self._header()

    def place(self, rank: int, world_size: int) -> None:
        """Correct the rank's place once the process group knows it."""
        self._rank, self._world_size = rank, world_size
        self._header()

    def step(self) -> None:
        """Count an optimizer step."""
        self.steps += 1
        self._header()

    def forward(self) -> None:
        """Count a forward of a wrapped model."""
        self.forwards += 1
        self._header()

    def begin(
        self, op: int, group: int, place: int, *, seq: int, root: int = NO_ROOT, reduce_op: int = 0, tensors: int = 0
    ) -> int:
        """Record that a call begins; returns what `end` wants."""
        index = self.written
        self.written = index + 1
        offset = HEADER_BYTES + index % RING * RECORD.size
        now = time.time_ns()
        RECORD.pack_into(self._map, offset, index, now, 0, seq, root, self.steps, place, tensors, op, group, reduce_op)
        self._header(now)
        return index

    def mark(
        self, what: int, source: int, iteration: int, seq: int, *, began_ns: int = 0, turn: int | None = None
    ) -> None:
        """Record that an iteration begins, after `seq` collectives; `began_ns` is when it was asked for, where it was."""
        index = self.written
        self.written = index + 1
        offset = HEADER_BYTES + index % RING * RECORD.size
        now = time.time_ns()
        began = began_ns or now
        turned = 0 if turn is None else turn + 1
        RECORD.pack_into(self._map, offset, index, began, now, seq, iteration, self.steps, source, turned, what, 0, 0)
        self._header(now)

    def end(self, index: int) -> None:
        """Record that the call has returned, with or without an exception."""
        now = time.time_ns()
        if self.written - index <= RING:
            struct.pack_into("<q", self._map, HEADER_BYTES + index % RING * RECORD.size + 16, now)
        self.returned += 1
        self._header(now)

    def _header(self, now: int | None = None) -> None:
        HEADER.pack_into(
            self._map, 0, MAGIC, VERSION, self._rank, self._world_size, self._restart, self.written, self.forwards,
            self.steps, now or time.time_ns(), self.returned, self._launcher, self._seat,
        )  # fmt: skip


def read_header(data: bytes) -> Header | None:
    """The header of a strip, or None where this is none (yet)."""
    if len(data) < HEADER_BYTES:
        return None
    header = Header(*HEADER.unpack_from(data))
    return header if header.magic == MAGIC and header.version == VERSION else None


def read_records(data: bytes) -> tuple[Record, ...]:
    """The calls that the ring still holds, oldest first; one that is torn (the writer died in it) is left out."""
    header = read_header(data)
    if header is None:
        return ()
    records = []
    for index in range(max(0, header.written - RING), header.written):
        record = Record(*RECORD.unpack_from(data, HEADER_BYTES + index % RING * RECORD.size))
        if record.number == index:
            records.append(record)
    return tuple(records)

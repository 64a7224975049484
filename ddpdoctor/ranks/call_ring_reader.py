"""Reads `PID.ring`: the counters and the latest calls that a rank keeps in shared memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any

from ddpdoctor.agent.inside.schema import call_ring as layout
from ddpdoctor.agent.inside.schema.call_ring import Batch, Collective, Forward, Header, NewGroup, PointToPoint, Record
from ddpdoctor.errors import UndecidedError

_KINDS: Mapping[int, tuple[Struct, Callable[..., Record]]] = {
    layout.COLLECTIVE: (layout.COLLECTIVE_LAYOUT, Collective),
    layout.POINT_TO_POINT: (layout.POINT_TO_POINT_LAYOUT, PointToPoint),
    layout.NEW_GROUP: (layout.NEW_GROUP_LAYOUT, NewGroup),
    layout.BATCH: (layout.BATCH_LAYOUT, Batch),
    layout.FORWARD: (layout.FORWARD_LAYOUT, Forward),
}


class OtherVersionError(UndecidedError):
    """The file was written by a ddpdoctor with another format."""

    def __init__(self, what: str, found: object, expected: int) -> None:
        super().__init__(
            f"{what} has format {found}, and this ddpdoctor reads format {expected}",
            hint="use the ddpdoctor that the job was started with",
        )


def read_header(data: bytes, what: str = "the call ring") -> Header | None:
    """The header of the ring that `data` begins with; None where it is no ring, or not one yet.

    Raises:
        OtherVersionError: it is a ring in another format; the message calls it `what`.
    """
    if len(data) < layout.HEADER_BYTES:
        return None
    magic, version = layout.PREAMBLE.unpack_from(data)
    if magic != layout.MAGIC:
        return None
    if version != layout.VERSION:
        raise OtherVersionError(what, version, layout.VERSION)
    return Header(
        *layout.IDENTITY.unpack_from(data, layout.IDENTITY_OFFSET),
        *layout.COUNTERS.unpack_from(data, layout.COUNTERS_OFFSET),
    )


def read_records(data: bytes, *, most: int = layout.RING) -> tuple[Record, ...]:
    """The last `most` records that the ring still holds, oldest first.

    Those that are incomplete are left out: the writer died in them.

    Raises:
        OtherVersionError: it is a ring in another format.
    """
    header = read_header(data)
    if header is None:
        return ()
    numbers = range(max(0, header.written - min(most, layout.RING)), header.written)
    records = (_record(data, number) for number in numbers)
    return tuple(record for record in records if record is not None)


def _record(data: bytes, number: int) -> Record | None:
    offset = layout.HEADER_BYTES + number % layout.RING * layout.RECORD_BYTES
    if offset + layout.RECORD_BYTES > len(data):
        return None
    written_as, kind = layout.PREFIX.unpack_from(data, offset)
    if written_as != number or kind not in _KINDS:
        return None
    struct, record = _KINDS[kind]
    fields: tuple[Any, ...] = struct.unpack_from(data, offset)
    return record(*fields[2:])

"""The elements of tensors from their bytes, as texts that show every bit that matters."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator

_STRUCT_CODES = {
    "float64": "d", "float32": "f", "float16": "e", "int64": "q", "int32": "i", "int16": "h", "int8": "b",
    "uint64": "Q", "uint32": "I", "uint16": "H", "uint8": "B", "bool": "?",
}  # fmt: skip


def element_texts(dtype: str, data: bytes) -> Iterator[str]:
    """The text of each element of a `dtype` as torch calls it: the shortest that reads back as the same; a NaN with its bits.

    Nothing for a dtype that is not known.
    """
    if dtype == "bfloat16":  # the upper half of a float32
        halves = array("H", data)
        values = struct.unpack(f"={len(halves)}f", b"".join(struct.pack("=I", half << 16) for half in halves))
        size = 2
    elif dtype in _STRUCT_CODES:
        size = struct.calcsize(f"={_STRUCT_CODES[dtype]}")
        values = struct.unpack(f"={len(data) // size}{_STRUCT_CODES[dtype]}", data[: len(data) // size * size])
    else:
        return
    for place, value in enumerate(values):
        if value == value:
            yield repr(value)
        else:
            yield f"nan (0x{data[place * size : (place + 1) * size][::-1].hex()})"

"""Typed records from the JSON files of a rank. The writer may have died in the middle of a line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TypeVar

import msgspec

T = TypeVar("T")


def read_json(kind: type[T], data: bytes) -> T | None:
    """The record in the first line of `data`; None where it is incomplete, or of another kind."""
    return next(read_json_lines(kind, data), None)


def read_json_lines(kind: type[T], data: bytes) -> Iterator[T]:
    """The record in each line of `data`, without lines that are incomplete, or of another kind."""
    for line in data.splitlines():
        try:
            record = msgspec.convert(json.loads(line), type=kind)
        except ValueError:  # msgspec's error is one, too
            continue
        yield record

"""Messages of other processes of a job, from bytes to checked values: what a peer may say, and how much of it."""

from __future__ import annotations

import math
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.json_errors import JSON_ERRORS

T = TypeVar("T")

MOST_BYTES = 8 << 20
"""The bytes of one message, decompressed. A store takes 8 MiB; the facts of one host are below 200 KiB."""

Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0, lt=MOST_RANKS)]
Port: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=65535)]
Name: TypeAlias = Annotated[str, msgspec.Meta(max_length=255)]  # HOST_NAME_MAX is 64, a DNS name has at most 253
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=4000)]


class PeerError(ValueError):
    """A message of a peer that cannot be used; the text says what is wrong with it."""


def decoded(message: bytes, kind: type[T] | Any, *, most_bytes: int = MOST_BYTES) -> T:  # noqa: ANN401 - a union or an alias
    """The value of type `kind` that a message holds as JSON.

    Raises:
        PeerError: it is too long, no JSON, or not of that type.
    """
    if len(message) > most_bytes:
        raise PeerError(f"it has {len(message)} bytes, more than {most_bytes}")
    try:
        found: T = msgspec.json.decode(message, type=kind)
    except JSON_ERRORS as error:
        raise PeerError(_first_line(error)) from None
    return found


def converted(value: object, kind: type[T], what: str) -> T:
    """A fact of type `kind` from what JSON holds of it; `what` is what an error calls it.

    Raises:
        PeerError: it is not of that type.
    """
    try:
        return msgspec.convert(value, kind, str_keys=True)
    except JSON_ERRORS as error:
        raise PeerError(f"{what}: {_first_line(error)}") from None


def need_seconds(value: float | None, what: str) -> None:
    """Raise PeerError unless `value` is a measured time or speed: finite and not negative."""
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise PeerError(f"{what} is {value}")


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]

"""Reads `PID.texts`: the functions, groups, lines and so on that the records of a rank's call ring refer to by number."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from ddpdoctor.agent.inside.schema.call_texts import (
    Group,
    HandledError,
    Joining,
    Members,
    Op,
    Place,
    ReduceOp,
    TensorSpec,
    Text,
    Wrapped,
)
from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.ranks.written_errors import frames_of

T = TypeVar("T", bound=Text)
_KINDS: Mapping[str, type[Text]] = {
    kind.__name__: kind for kind in (Op, Group, ReduceOp, TensorSpec, Members, Place, Wrapped, HandledError, Joining)
}


@dataclass(frozen=True, slots=True)
class Texts:
    """What the numbers in records stand for, and what belongs to no record."""

    numbered: Mapping[tuple[object, int], Text] = field(default_factory=dict)
    """Each text by its kind and number."""
    handled: tuple[HandledError, ...] = ()
    """Errors that were being handled while a collective was called, in order."""
    joining: Joining | None = None
    """What the rank joined with, once it did."""

    def get(self, kind: type[T], number: int) -> T | None:
        """The text of this kind and number; None where it has no such text."""
        text = self.numbered.get((kind, number))
        return text if isinstance(text, kind) else None

    def op(self, number: int) -> str:
        """The function with this number, or `?`."""
        op = self.get(Op, number)
        return op.name if op is not None else "?"

    def groups(self) -> tuple[Group, ...]:
        """All process groups."""
        return tuple(text for text in self.numbered.values() if isinstance(text, Group))

    def wrapped(self) -> tuple[Wrapped, ...]:
        """All wrapped models, in order."""
        return tuple(text for text in self.numbered.values() if isinstance(text, Wrapped))

    def stack(self, number: int) -> tuple[Frame, ...]:
        """The lines of the user's code and of frameworks with this number, innermost first."""
        place = self.get(Place, number)
        return frames_of(place.lines) if place is not None else ()

    def line(self, number: int) -> Frame | None:
        """The innermost of the user's lines with this number, a framework's where none is the user's."""
        return users_frame(self.stack(number))


def read_texts(data: bytes) -> Texts:
    """What is in the file so far; a line that is not as the format has it (the last one may be incomplete) is left out."""
    numbered: dict[tuple[object, int], Text] = {}
    handled: list[HandledError] = []
    joining: Joining | None = None
    for line in data.splitlines():
        with contextlib.suppress(ValueError, LookupError, TypeError):
            name, number, fields = json.loads(line)
            match msgspec.convert(fields, type=_KINDS[name]):
                case HandledError() as error:
                    handled.append(error)
                case Joining() as found:
                    joining = found
                case text:
                    numbered[type(text), number] = text
    return Texts(numbered, tuple(handled), joining)

"""The facts of a rank as parts of a bundle, and those of all ranks as rank 0 hands them to the command beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ddpdoctor.evidence import Missing, RankFacts, kinds
from ddpdoctor.json_errors import JSON_ERRORS
from ddpdoctor.transport.bundle import Bundle, BundleError, HostClock, Parts, ProcessIdentity

MISSING, NOTES = "missing", "notes"  # beside the kinds of facts, whose names begin with a capital letter


class FactsError(ValueError):
    """What a rank sent is no evidence of this version; the text says which part and why."""


class GatheredFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What rank 0 was told, for the command beside it."""

    bundle: bytes
    """The accounts of all processes."""
    clocks: dict[str, HostClock]
    """How far each host's clock is ahead of rank 0's, by the clock's identity."""
    unread: list[str]
    """Messages that could not be used, and why."""

    def encode(self) -> bytes:
        """As bytes for `decode`."""
        return msgspec.msgpack.encode(self)

    @classmethod
    def decode(cls, data: bytes) -> GatheredFacts:
        """What `encode` wrote."""
        return msgspec.msgpack.decode(data, type=cls)


def parts_of(facts: Sequence[Any], missing: Sequence[Missing], notes: Sequence[str]) -> Parts:
    """One part per fact, so that what ranks share is sent once."""
    parts = {type(fact).__name__: [_encoded(fact)] for fact in facts}
    return {**parts, MISSING: [_encoded(missing)], NOTES: [_encoded(notes)]}


@dataclass(slots=True)
class FactsReader:
    """The facts in a bundle; ranks that sent the same part share one fact."""

    bundle: Bundle
    """The parts that ranks have sent."""
    _known: dict[tuple[str, bytes | None], Any] = field(default_factory=dict)

    def facts(self, who: ProcessIdentity) -> RankFacts:
        """What one process found.

        Raises:
            FactsError: a part is not of its type.
        """
        names = kinds().keys() & (self.bundle.accounts[who].parts or {}).keys()
        facts = tuple(self._read(who, name, kinds()[name]) for name in kinds() if name in names)
        return RankFacts(rank=who.rank, host=who.host, facts=facts)

    def missing(self, who: ProcessIdentity) -> tuple[Missing, ...]:
        """What it could not find, and why."""
        found: tuple[Missing, ...] = self._read(who, MISSING, tuple[Missing, ...])
        return tuple(Missing(kind=one.kind, reason=one.reason, rank=who.rank) for one in found)

    def notes(self, who: ProcessIdentity) -> tuple[str, ...]:
        """What a reader should know beside it."""
        found: tuple[str, ...] = self._read(who, NOTES, tuple[str, ...])
        return found

    def _read(self, who: ProcessIdentity, name: str, kind: Any) -> Any:  # noqa: ANN401 - a type, and an instance of it
        data = self.bundle.part(who, name)
        if (name, data) not in self._known:
            try:
                self._known[name, data] = msgspec.convert(msgspec.json.decode(data or b""), kind, str_keys=True)
            except (ValueError, RecursionError) as error:
                raise FactsError(f"{name}: {(str(error).splitlines() or [''])[0]}") from None
        return self._known[name, data]


def encoded_parts(parts: Parts) -> bytes:
    """Parts as bytes, for `decoded_parts`."""
    return msgspec.msgpack.encode(parts)


def decoded_parts(data: bytes) -> Mapping[str, list[bytes]]:
    """What `encoded_parts` wrote.

    Raises:
        BundleError: it is none.
    """
    try:
        return msgspec.msgpack.decode(data, type=dict[str, list[bytes]])
    except JSON_ERRORS as error:
        raise BundleError(str(error)) from None


def _encoded(value: object) -> bytes:
    return msgspec.json.encode(msgspec.to_builtins(value, str_keys=True))

"""What ranks tell rank 0, in named parts. A body that several of them have is carried once, known by its digest."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, TypeAlias

import msgspec

from ddpdoctor.evidence.bounds import MOST_RANKS
from ddpdoctor.json_errors import JSON_ERRORS

VERSION = 1
DIGEST_BYTES = 16
MOST_ACCOUNTS = 1 << 18  # as many as there can be ranks
MOST_PARTS = 4096  # of one rank

Digest: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
Rank: TypeAlias = Annotated[int, msgspec.Meta(ge=-MOST_RANKS, le=MOST_RANKS)]
Text: TypeAlias = Annotated[str, msgspec.Meta(max_length=255)]
Parts: TypeAlias = Mapping[str, Sequence[bytes]]
"""Each part's content, in pieces: pieces that other ranks have as well travel once."""


class BundleError(ValueError):
    """Bytes that are no bundle of this version; the text says why."""


class ProcessIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """One process that takes part. Two that claim one rank differ by host and process id."""

    rank: Rank
    """The rank that its launcher gave it."""
    world_size: Rank
    """The world size that its launcher gave it."""
    host: Text
    """The name of its host."""
    pid: int
    """Its process id."""
    clock: Text
    """The same for all processes that share one kernel, and so one clock."""


class HostClock(msgspec.Struct, frozen=True, kw_only=True):
    """How far a host's clock is ahead of rank 0's."""

    ahead_seconds: float
    """Negative where it is behind."""
    error_seconds: float
    """Half of the quickest round trip."""


class ProcessReport(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of one process: that it is there, and later what it found."""

    who: ProcessIdentity
    """The process that it is about."""
    parts: Annotated[dict[Text, tuple[Digest, ...]], msgspec.Meta(max_length=MOST_PARTS)] | None = None
    """The digests of the pieces of each part; None before it has told them."""


class _Wire(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    version: int
    accounts: Annotated[list[ProcessReport], msgspec.Meta(max_length=MOST_ACCOUNTS)]
    bodies: list[bytes]


@dataclass(slots=True)
class Bundle:
    """Accounts of many processes, and the bodies that they refer to."""

    accounts: dict[ProcessIdentity, ProcessReport] = field(default_factory=dict)
    """In order of arrival; the latest account of each process that has parts."""
    bodies: dict[bytes, bytes] = field(default_factory=dict)
    """By digest. A bundle on its way may lack bodies that went before it."""

    def add(self, who: ProcessIdentity, parts: Parts | None = None) -> None:
        """Note that a process is there, or what it found."""
        if parts is None:
            self.accounts.setdefault(who, ProcessReport(who=who))
            return
        digests = {}
        for name, pieces in parts.items():
            digests[name] = tuple(digest_of(piece) for piece in pieces)
            self.bodies.update(zip(digests[name], pieces, strict=True))
        self.accounts[who] = ProcessReport(who=who, parts=digests)

    def merge(self, other: Bundle) -> None:
        """Take over what `other` knows."""
        self.bodies.update(other.bodies)
        for who, account in other.accounts.items():
            if account.parts is not None or who not in self.accounts:
                self.accounts[who] = account

    def part(self, who: ProcessIdentity, name: str) -> bytes | None:
        """The content of one part; None where the process has not told it, or where a body is not there."""
        account = self.accounts[who]
        pieces = [self.bodies.get(digest) for digest in (account.parts or {}).get(name, ())]
        known = [piece for piece in pieces if piece is not None]
        return b"".join(known) if account.parts is not None and name in account.parts and known == pieces else None

    def has_told(self, who: ProcessIdentity) -> bool:
        """Whether a process has said what it found, be all of it here or not."""
        return self.accounts[who].parts is not None

    def complete(self, who: ProcessIdentity) -> bool:
        """Whether all that a process found is here."""
        parts = self.accounts[who].parts
        return parts is not None and all(digest in self.bodies for pieces in parts.values() for digest in pieces)

    def portions(self, most_bytes: int) -> Iterator[Bundle]:
        """The same in bundles of at most so many bytes each, or of one body; the accounts come last, with all before them."""
        portion, size = Bundle(), 0
        for digest, body in self.bodies.items():
            if portion.bodies and size + len(body) > most_bytes:
                yield portion
                portion, size = Bundle(), 0
            portion.bodies[digest] = body
            size += len(body)
        portion.accounts.update(self.accounts)
        if portion.accounts or portion.bodies:
            yield portion

    def encode(self) -> bytes:
        """As bytes for `decode`."""
        wire = _Wire(version=VERSION, accounts=[*self.accounts.values()], bodies=[*self.bodies.values()])
        return msgspec.msgpack.encode(wire)

    @classmethod
    def decode(cls, data: bytes) -> Bundle:
        """The bundle in `data`. A body's digest is calculated here, so that no sender can give it another.

        Raises:
            BundleError: it is none, or one of another version.
        """
        try:
            wire = msgspec.msgpack.decode(data, type=_Wire)
        except JSON_ERRORS as error:
            raise BundleError(f"it is not a message of this version of ddpdoctor: {error}") from None
        if wire.version != VERSION:
            raise BundleError(
                f"it is of version {wire.version} and not of {VERSION}: the ranks run different ddpdoctors"
            )
        return cls(
            accounts={account.who: account for account in wire.accounts},
            bodies={digest_of(body): body for body in wire.bodies},
        )


def digest_of(body: bytes) -> bytes:
    """What stands for `body` where it is not repeated."""
    return hashlib.blake2b(body, digest_size=DIGEST_BYTES).digest()

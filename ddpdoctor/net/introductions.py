"""What a node says of itself before it takes part, and who of those that came can take part."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ddpdoctor import __version__
from ddpdoctor.evidence import kinds, noun_of
from ddpdoctor.net.keys import PUBLIC_DIGITS, public_number
from ddpdoctor.net.store_mailbox import Messages
from ddpdoctor.net.tcp import MAGIC
from ddpdoctor.transport.peer_message import Name, Number, PeerError, Port, converted

PROTOCOL = MAGIC.decode("ascii")
MOST_SHOWN_NUMBER = 1 << 63
MOST_SHOWN = 80  # characters of a name that a message says of its sender


@dataclass(frozen=True, slots=True, kw_only=True)
class Introduction:
    """What a node says of itself: where it listens, and its facts by kind, for the checks of node 0."""

    node: Number
    """Its number among the nodes."""
    nodes: Number
    """How many nodes it was told that there are."""
    host: Name
    """Its host name."""
    pid: int
    """Its process id on its host."""
    address: Name
    """The IP address at which it can be reached, with `%zone` where IPv6 needs one."""
    port: Port
    """The TCP port on which it listens for its peers."""
    public: str
    """Its public number of the key exchange, in hexadecimal."""
    speed_mbit: int | None
    """The speed of its interface in Mbit/s; None where the kernel does not say."""
    facts: Mapping[str, Any]
    """By kind of evidence, its facts as they are on the wire."""
    protocol: Name = PROTOCOL
    """The version of what nodes say to each other; others must have the same."""
    release: Name = __version__
    """Its version of ddpdoctor."""

    def __post_init__(self) -> None:
        ipaddress.ip_address(self.address.partition("%")[0])
        if len(self.public) > PUBLIC_DIGITS:
            raise ValueError("its public number is too long")
        public_number(self.public)

    @property
    def called(self) -> str:
        """What a person calls it: its number, its host and where it listens."""
        return f"node {self.node} ({self.host}, {self.address}:{self.port})"


class Introductions:
    """Who has introduced itself as one of `expected` nodes, as the first or the second under its number.

    A node whose introduction cannot be used is in `left_out`, under its number, with the reason, and in neither.
    """

    def __init__(self, messages: Messages, expected: int) -> None:
        self._messages = messages
        self._open = {turn: dict.fromkeys(range(expected)) for turn in (1, 2)}
        self._known: dict[int, dict[int, Introduction]] = {1: {}, 2: {}}
        self.left_out: dict[int, str] = {}

    def look(self, turn: int) -> list[Introduction]:
        """Those that have come by now as the first or second, by number."""
        for number in list(self._open[turn]):
            if self._messages.comes(f"node/{number}/{turn}", until=0.0):
                del self._open[turn][number]
                try:
                    self._known[turn][number] = self._introduced(number, turn)
                except PeerError as error:
                    self.left_out.setdefault(number, str(error))
        known = self._known[turn]
        return [known[number] for number in sorted(known)]

    def _introduced(self, number: int, turn: int) -> Introduction:
        key = f"node/{number}/{turn}"
        raw: Any = self._messages.hear(key, Any, until=0.0)
        who = _called(number, raw)
        protocol = raw.get("protocol") if isinstance(raw, dict) else None
        if protocol != PROTOCOL:
            release = raw.get("release", "unknown") if isinstance(raw, dict) else "unknown"
            raise PeerError(
                f"{who} runs another version of ddpdoctor: {_shown(release)}, this node {__version__}; install the same on all"
            )
        try:
            return _checked(raw, number)
        except PeerError as error:
            raise PeerError(f"{who} sent facts that cannot be used: {error}") from None


def _checked(raw: object, number: int) -> Introduction:
    introduction = converted(raw, Introduction, "its introduction")
    if introduction.node != number:
        raise PeerError(f"it says that it is node {introduction.node}")
    for name, fact in introduction.facts.items():
        if name not in kinds():
            raise PeerError(f"it has facts of an unknown kind, {_shown(name)}")
        converted(fact, kinds()[name], noun_of(name))
    return introduction


def _called(number: int, raw: object) -> str:
    """A name for who sent `raw`, which may be anything."""
    fields = raw if isinstance(raw, dict) else {}
    where = f"{_shown(fields.get('address', '?'))}:{_shown(fields.get('port', '?'))}"
    return f"node {number} ({_shown(fields.get('host', 'no host name'))}, {where})"


def _shown(value: object) -> str:
    if isinstance(value, str):
        return value[:MOST_SHOWN]
    return str(value) if isinstance(value, int) and abs(value) < MOST_SHOWN_NUMBER else f"a {type(value).__name__}"

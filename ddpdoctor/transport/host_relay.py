"""The ranks of one host elect one that sends for all of them: it alone needs torch and a connection to rank 0's store.

Whoever first binds a name in the kernel's table of Unix sockets leads; the others connect to it, and know it by its user. The
kernel frees the name with the process, so that where a leader dies the next rank takes its place, and everybody tells it
again what it has. A rank that gets no sign of life from its leader goes to rank 0 alone.
"""

from __future__ import annotations

import contextlib
import enum
import hashlib
import os
import selectors
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ddpdoctor.transport.bundle import Bundle, BundleError, Parts, ProcessIdentity

BEAT_SECONDS = 2.0
SILENT_SECONDS = 20.0  # ten beats: a busy host skips some
SEND_SECONDS = 10.0  # for a message to a process of the same host
LISTEN_SECONDS = 2.0  # between a leader's two system calls, on a busy host
AGAIN_SECONDS = 0.2  # between two elections
LEAVE_SECONDS = 2.0  # for the others of this host to hear that it is over
FORWARD_SECONDS = 0.1  # what comes within it goes on together
MOST_BYTES = 1 << 30  # of one message
MOST_SENT_BYTES = 64 << 20  # in one message: what one rank has can be larger than the other side, or a store, takes
RECEIVE_BYTES = 1 << 18
BACKLOG = 256

_BEAT, _LEAVE, _FAILED = b"b", b"l", b"f"
_LENGTH = struct.Struct(">I")
_CREDENTIALS = struct.Struct("3i")  # of the peer: process id, user, group


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayMember:
    """One rank's part: who it is, what it finds, and until when it waits for others."""

    who: ProcessIdentity
    """The process that takes part."""
    parts: Callable[[], Parts]
    """Waits for what it has found."""
    join_until: float
    """When it gives up to reach rank 0, of `time.monotonic`."""
    leave_until: float
    """When it leaves though rank 0 has not let it go."""


class Relay:
    """What the ranks of a host have told its leader, from a thread that also shows them that the leader is alive."""

    def __init__(self, listener: socket.socket | None) -> None:
        self._fresh = Bundle()
        self._lock = threading.Lock()
        self._came = threading.Event()
        self._goodbye = b""
        self._listener = listener
        if listener is not None:
            self._wakes, self._wake = socket.socketpair()
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()

    def add(self, who: ProcessIdentity, parts: Parts | None = None) -> None:
        """The leader's own account."""
        with self._lock:
            self._fresh.add(who, parts)
        self._came.set()

    def take(self, *, wait_seconds: float) -> Bundle | None:
        """What has come since the last call, once something has; None where nothing has come for `wait_seconds`."""
        if not self._came.wait(wait_seconds):
            return None
        with self._lock:
            self._came.clear()
            fresh, self._fresh = self._fresh, Bundle()
        return fresh if fresh.accounts or fresh.bodies else None

    def close(self, failed: str = "") -> None:
        """Let the others go, or say why the leader could not reach rank 0; wait until they have heard it."""
        self._goodbye = _FAILED + failed.encode() if failed else _LEAVE
        self._came.set()
        if self._listener is not None:
            with self._wakes, self._wake:
                self._wake.send(b"x")
                self._thread.join(LEAVE_SECONDS + BEAT_SECONDS)

    def _serve(self) -> None:
        assert self._listener is not None
        with self._listener as listener, selectors.DefaultSelector() as selector:
            listener.setblocking(False)
            selector.register(listener, selectors.EVENT_READ)
            selector.register(self._wakes, selectors.EVENT_READ)
            peers: dict[socket.socket, _Inbox] = {}
            while not self._goodbye:
                self._tell(peers, _BEAT, selector)
                self._hear(selector, peers, until=time.monotonic() + BEAT_SECONDS)
            self._tell(peers, self._goodbye, selector)
            until = time.monotonic() + LEAVE_SECONDS
            while peers and time.monotonic() < until:
                self._hear(selector, peers, until=until)
            for peer in [*peers]:
                _drop(peer, selector, peers)

    def _hear(self, selector: selectors.BaseSelector, peers: dict[socket.socket, _Inbox], *, until: float) -> None:
        """Take what the others say, until then or until it is time to say goodbye."""
        said_goodbye = bool(self._goodbye)
        while bool(self._goodbye) == said_goodbye and time.monotonic() < until and not (said_goodbye and not peers):
            for key, _ in selector.select(timeout=max(0.0, until - time.monotonic())):
                if key.fileobj is self._listener:
                    self._accept(self._listener, selector, peers)
                elif key.fileobj is self._wakes:
                    self._wakes.recv(1)
                else:
                    self._receive(key.fileobj, selector, peers)  # type: ignore[arg-type] # a socket that was registered

    def _accept(
        self, listener: socket.socket, selector: selectors.BaseSelector, peers: dict[socket.socket, _Inbox]
    ) -> None:
        with contextlib.suppress(OSError):
            peer, _ = listener.accept()
            if not _of_this_user(peer):
                peer.close()
                return
            peer.setblocking(False)
            peers[peer] = _Inbox()
            selector.register(peer, selectors.EVENT_READ)
            if self._goodbye:
                self._tell({peer: peers[peer]}, self._goodbye, selector)

    def _receive(
        self, peer: socket.socket, selector: selectors.BaseSelector, peers: dict[socket.socket, _Inbox]
    ) -> None:
        try:
            data = peer.recv(RECEIVE_BYTES)
            bundles = [Bundle.decode(message) for message in peers[peer].feed(data)]
        except BlockingIOError:
            return
        except (OSError, BundleError):
            _drop(peer, selector, peers)
            return
        if not data:
            _drop(peer, selector, peers)
        with self._lock:
            for bundle in bundles:
                self._fresh.merge(bundle)
        if bundles:
            self._came.set()

    @staticmethod
    def _tell(peers: dict[socket.socket, _Inbox], message: bytes, selector: selectors.BaseSelector) -> None:
        for peer in [*peers]:
            try:
                peer.sendall(_framed(message))
            except OSError:  # noqa: PERF203 - it has left, or does not read
                _drop(peer, selector, peers)


def take_part(name: str, member: RelayMember, lead: Callable[[Relay, RelayMember], None]) -> None:
    """Speak for this host, with `lead`, or hand what this rank finds to the one that does; until rank 0 is done.

    `lead` raises TimeoutError where it does not reach rank 0.

    Raises:
        TimeoutError: nobody of this host reached rank 0 in time, or this rank's own facts did not come.
    """
    found = _Found(member)
    alone = False
    while True:
        place = None if alone else _place(name)
        if place is None or place.leads:
            relay = Relay(place.socket if place is not None else None)
            try:
                lead(relay, member)
            except BaseException as error:
                relay.close(str(error) or type(error).__name__)
                raise
            relay.close()
            return
        with place.socket as leader:
            ended = _follow(leader, found)
        if ended is _End.LET_GO:
            return
        if time.monotonic() > member.join_until:
            raise TimeoutError(found.reason or f"no process on {member.who.host} reached rank 0 in time")
        alone = ended is _End.SILENT
        time.sleep(AGAIN_SECONDS)


def meeting_name(*parts: object) -> str:
    """The name under which the ranks of this host find each other: the same for all that would meet in one store."""
    words = "\0".join(map(str, (os.getuid(), socket.gethostname(), *parts)))
    return f"\0ddpdoctor-{hashlib.blake2b(words.encode(), digest_size=16).hexdigest()}"


@dataclass(frozen=True, slots=True)
class _Place:
    socket: socket.socket
    leads: bool


def _place(name: str) -> _Place | None:
    """The listening socket of a leader, or a connection to one; None where neither can be had."""
    end = time.monotonic() + LISTEN_SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(ConnectionRefusedError):  # a leader that does not listen yet, or no longer
            return _bound(name) or _connected(name)
        time.sleep(LISTEN_SECONDS / 20)
    return None


def _bound(name: str) -> _Place | None:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.bind(name)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        return None
    return _Place(listener, leads=True)


def _connected(name: str) -> _Place | None:
    leader = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        leader.settimeout(SEND_SECONDS)
        leader.connect(name)
        if _of_this_user(leader):
            return _Place(leader, leads=False)
    except ConnectionRefusedError:
        leader.close()
        raise
    except OSError:
        pass
    leader.close()
    return None


class _End(enum.Enum):
    """How it ended with a leader."""

    LET_GO = enum.auto()
    """Rank 0 has what it needs."""
    GONE = enum.auto()
    """The leader ended, or gave up."""
    SILENT = enum.auto()
    """The leader is there, and shows no life."""


@dataclass(slots=True)
class _Found:
    """What this rank has for its leader, whichever that is."""

    member: RelayMember
    parts: Parts | None = None
    reason: str = ""
    """Why a leader gave up, in its own words."""

    def bundles(self) -> Iterator[Bundle]:
        """That it is there, then what it found."""
        arrival, account = Bundle(), Bundle()
        arrival.add(self.member.who)
        yield arrival
        if self.parts is None:
            self.parts = self.member.parts()
        account.add(self.member.who, self.parts)
        yield from account.portions(MOST_SENT_BYTES)


def _follow(leader: socket.socket, found: _Found) -> _End:
    """Tell the leader all that this rank has, and wait until it says that rank 0 is done."""
    with contextlib.suppress(OSError):  # what it said before it left can still be read
        for bundle in found.bundles():
            leader.sendall(_framed(bundle.encode()))
    inbox = _Inbox()
    leader.settimeout(SILENT_SECONDS)
    while time.monotonic() < found.member.leave_until:
        try:
            data = leader.recv(RECEIVE_BYTES)
            messages = [*inbox.feed(data)]
        except TimeoutError:
            return _End.SILENT
        except (OSError, BundleError):
            return _End.GONE
        for message in messages:
            if message == _LEAVE:
                return _End.LET_GO
            if message.startswith(_FAILED):
                found.reason = message[1:].decode(errors="replace")
        if not data:
            return _End.GONE
    raise TimeoutError("rank 0 did not let this rank go in time")


@dataclass(slots=True)
class _Inbox:
    """Messages from a stream: the length in four bytes, then the bytes."""

    _data: bytearray = field(default_factory=bytearray)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The messages that are complete with `data`."""
        self._data += data
        while len(self._data) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._data)
            if length > MOST_BYTES:
                raise BundleError(f"a message of {length} bytes, more than {MOST_BYTES}")
            if len(self._data) < _LENGTH.size + length:
                return
            yield bytes(self._data[_LENGTH.size : _LENGTH.size + length])
            del self._data[: _LENGTH.size + length]


def _framed(message: bytes) -> bytes:
    return _LENGTH.pack(len(message)) + message


def _of_this_user(peer: socket.socket) -> bool:
    """Whether the process at the other end runs as the same user, as the kernel knows it."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.getuid())


def _drop(peer: socket.socket, selector: selectors.BaseSelector, peers: dict[socket.socket, _Inbox]) -> None:
    if peers.pop(peer, None) is not None:
        selector.unregister(peer)
        peer.close()

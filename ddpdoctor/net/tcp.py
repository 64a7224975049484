"""What two nodes say to each other over TCP: a proof that both belong to this job, then echoes and a stream.

The caller says hello with its number and 32 random bytes. The listener answers with its own number and 32 random bytes. Then the
caller, and after it the listener, sends an HMAC over both under the key that the two share. The key itself never travels, and
an HMAC that somebody has recorded fits no other conversation. Then requests of one letter and a length; anything else ends
the connection.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import secrets
import socket
import struct
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from typing_extensions import Self

from ddpdoctor.transport.peer_message import PeerError

PROTOCOL = b"ddpdoc/"
MAGIC = PROTOCOL + b"4"
NONCE_BYTES = 32
PROOF_BYTES = hashlib.sha256().digest_size
HELLO = struct.Struct(f"!8sI{NONCE_BYTES}s")  # of either side: its number, and what the other's proof must contain
REQUEST = struct.Struct("!cI")
SUNK = struct.Struct("!Q")  # the nanoseconds for which the receiver of a stream waited for a processor
ECHO, SINK = b"E", b"S"
MAX_ECHO_BYTES = 1 << 20
MAX_SINK_BYTES = 32 << 20
PIECE_BYTES = 256 << 10
# of a stream's seconds, that count at least: while a thread waits for a processor, the kernel goes on to move bytes
LEAST_COUNTED = 0.25
IDLE_SECONDS = 10.0  # a caller that says nothing for so long is let go
GREETING_SECONDS = 5.0  # for a whole handshake: a byte now and then does not keep a connection open
MOST_REFUSALS = 20  # that are remembered, one per host and reason
MAX_CALLERS = 64  # at once; more than a job's rounds ever bring
MAX_STRANGERS = 64  # that have not greeted yet: the one that has waited longest makes room for the next
BACKLOG = 1024  # connections that the kernel keeps until we look


KeyOf: TypeAlias = "Callable[[int], bytes | None]"


def proof(key: bytes, role: bytes, caller: bytes, listener: bytes) -> bytes:
    """What shows that its sender knows `key`, in the conversation that began with these two hellos and in no other."""
    return hmac.new(key, role + caller + listener, hashlib.sha256).digest()


def receive(connection: socket.socket, size: int, *, until: float | None = None) -> bytes:
    """Exactly `size` bytes, all of them by `until` (of `time.monotonic`) where that is given.

    Raises:
        ConnectionError: the other side ended before that.
        TimeoutError: they have not come in time.
    """
    parts = []
    while size:
        if until is not None:
            connection.settimeout(max(0.001, until - time.monotonic()))
        part = connection.recv(min(size, PIECE_BYTES))
        if not part:
            raise ConnectionError("the peer closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Listener:
    """Answers the callers of this job on one address, on a port that the kernel chooses, until it is closed.

    Use it as a context manager. `key_of` gives the key that this node shares with another, None for a number that is no node.
    Callers that do not prove that they know it, and requests that are too large, are hung up on. However many
    connections strangers hold open, a caller of the job finds room: it greets at once, and they do not.
    """

    def __init__(self, address: str, key_of: KeyOf, node: int, *, lifetime_seconds: float) -> None:
        self._key_of = key_of
        self._node = node
        self._ends = time.monotonic() + lifetime_seconds
        self._socket = socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=BACKLOG
        )
        self._socket.settimeout(0.2)
        self.port: int = self._socket.getsockname()[1]
        self._slots = threading.BoundedSemaphore(MAX_CALLERS)
        self._strangers: deque[socket.socket] = deque()
        self._refused: dict[tuple[str, str], tuple[int, int]] = {}
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def refused(self) -> tuple[str, ...]:
        """Who was hung up on, and why: at most 20 entries, one per host and reason, with the port of its first connection."""
        return tuple(
            f"{host}:{port} {why}" + (f" ({number} connections)" if number > 1 else "")
            for (host, why), (port, number) in sorted(self._refused.items())
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(timeout=2)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed.is_set() and time.monotonic() < self._ends:
            with contextlib.suppress(OSError):
                connection, where = self._socket.accept()
                self._strangers.append(connection)
                if len(self._strangers) > MAX_STRANGERS:
                    hang_up(self._strangers.popleft())
                threading.Thread(target=self._serve, args=(connection, where), daemon=True).start()
        self._socket.close()

    def _serve(self, connection: socket.socket, where: tuple[str, int]) -> None:
        with connection, contextlib.suppress(OSError, struct.error):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            why = self._refusal(connection)
            with contextlib.suppress(ValueError):  # it made room for another one
                self._strangers.remove(connection)
            if why:
                self._note(where, why)
            elif self._slots.acquire(blocking=False):
                try:
                    connection.settimeout(IDLE_SECONDS)
                    self._answer_requests(connection)
                finally:
                    self._slots.release()

    def _refusal(self, connection: socket.socket) -> str:
        """Why a caller is no node of this job; nothing where it is one."""
        until = time.monotonic() + GREETING_SECONDS
        try:
            hello, caller = _received_hello(connection, until)
            key = self._key_of(caller)
            if key is None:
                return f"says that it is node {caller}, which is no other node of this job"
            own = HELLO.pack(MAGIC, self._node, secrets.token_bytes(NONCE_BYTES))
            connection.sendall(own)
            if not hmac.compare_digest(
                receive(connection, PROOF_BYTES, until=until), proof(key, b"caller", hello, own)
            ):
                return f"says that it is node {caller} and does not know that node's key"
            connection.sendall(proof(key, b"listener", hello, own))
        except WrongPeer as stranger:
            return str(stranger)
        except PeerError as error:
            return f"is not a node of this job: {error}"
        except OSError:
            return "ended the connection or fell silent during the handshake"
        return ""

    def _note(self, where: tuple[str, int], why: str) -> None:
        port, number = self._refused.get((where[0], why), (where[1], 0))
        if number or len(self._refused) < MOST_REFUSALS:
            self._refused[where[0], why] = (port, number + 1)

    def _answer_requests(self, connection: socket.socket) -> None:
        while not self._closed.is_set():
            letter, size = REQUEST.unpack(receive(connection, REQUEST.size))
            if letter == ECHO and size <= MAX_ECHO_BYTES:
                connection.sendall(receive(connection, size))
            elif letter == SINK and size <= MAX_SINK_BYTES:
                waited = waited_for_processor()
                while size:
                    size -= len(receive(connection, min(size, PIECE_BYTES)))
                connection.sendall(SUNK.pack(waited_for_processor() - waited))
            else:
                return


def hang_up(connection: socket.socket) -> None:
    """End a connection that a thread reads from: the thread sees its end and closes it."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class WrongPeer(ConnectionError):  # noqa: N818 - it is who answered, not what went wrong
    """What answered is not the node that was called: another program, another job, or another node."""


def call(address: str, port: int, key: bytes, me: int, wanted: int, *, timeout_seconds: float) -> socket.socket:
    """An open connection to the listener of node `wanted`, with which this node shares `key`.

    Raises:
        WrongPeer: something else answers there.
        OSError: the connection failed.
    """
    connection = socket.create_connection((address, port), timeout=timeout_seconds)
    try:
        _greet(connection, key, me, wanted)
        connection.settimeout(timeout_seconds)
    except BaseException:
        connection.close()
        raise
    return connection


def _greet(connection: socket.socket, key: bytes, me: int, wanted: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    until = time.monotonic() + GREETING_SECONDS
    hello = HELLO.pack(MAGIC, me, secrets.token_bytes(NONCE_BYTES))
    connection.sendall(hello)
    try:
        answer, node = _received_hello(connection, until)
        if node == wanted:
            connection.sendall(proof(key, b"caller", hello, answer))
            given = receive(connection, PROOF_BYTES, until=until)
    except WrongPeer as stranger:
        raise WrongPeer(f"the listener {stranger}") from None
    except ConnectionError:
        raise WrongPeer("the listener closed the connection during the handshake") from None
    if node != wanted:
        raise WrongPeer(f"node {node} answers instead of node {wanted}")
    if not hmac.compare_digest(given, proof(key, b"listener", hello, answer)):
        raise WrongPeer(f"the listener says that it is node {node} and does not know that node's key")


def _received_hello(connection: socket.socket, until: float) -> tuple[bytes, int]:
    """The other side's hello, and the number in it.

    Raises:
        WrongPeer: it sends something else.
    """
    start = receive(connection, len(MAGIC), until=until)
    if start != MAGIC:
        other = "speaks another version of the protocol" if start.startswith(PROTOCOL) else "speaks another protocol"
        raise WrongPeer(f"{other}: {start!r} instead of {MAGIC!r}")
    hello = start + receive(connection, HELLO.size - len(MAGIC), until=until)
    node: int = HELLO.unpack(hello)[1]
    return hello, node


def echo(connection: socket.socket, size: int) -> float:
    """Seconds for `size` bytes there and back."""
    start = time.perf_counter()
    connection.sendall(REQUEST.pack(ECHO, size) + b"e" * size)
    receive(connection, size)
    return time.perf_counter() - start


def stream(connection: socket.socket, size: int) -> float:
    """Seconds that the link needs until `size` bytes have arrived there.

    The time for which the two threads waited for a processor does not count: it tells of busy hosts, not of the link.
    """
    piece = b"s" * PIECE_BYTES
    start, waited = time.perf_counter(), waited_for_processor()
    connection.sendall(REQUEST.pack(SINK, size))
    while size:
        sent = min(size, PIECE_BYTES)
        connection.sendall(piece[:sent])
        size -= sent
    there: int = SUNK.unpack(receive(connection, SUNK.size))[0]
    seconds = time.perf_counter() - start
    return max(seconds - (waited_for_processor() - waited + there) * 1e-9, LEAST_COUNTED * seconds)


def waited_for_processor() -> int:
    """The nanoseconds for which this thread was ready to run and had no processor; 0 where the kernel does not count them.

    Source: Documentation/scheduler/sched-stats.rst of the Linux kernel, the second number of schedstat.
    """
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:  # noqa: PTH123 - a quarter of Path's time
            return int(file.read().split()[1])
    except (OSError, ValueError, IndexError):
        return 0

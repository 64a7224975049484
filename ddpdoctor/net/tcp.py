"""What two nodes say to each other over TCP: a proof that both belong to this job, then echoes and a stream.

Hello: magic, 16 random bytes, their HMAC under the job's token, the caller's node. Answer: magic, another HMAC, the node
that answers. The token itself never travels. Then requests of one letter and a length; anything else ends the connection.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import socket
import struct
import threading
import time
from collections import deque

from typing_extensions import Self

MAGIC = b"ddpdoc/2"
NONCE_BYTES = 16
PROOF_BYTES = hashlib.sha256().digest_size
HELLO = struct.Struct(f"!8s{NONCE_BYTES}s{PROOF_BYTES}sI")
ANSWER = struct.Struct(f"!8s{PROOF_BYTES}sI")
REQUEST = struct.Struct("!cI")
SUNK = struct.Struct("!Q")  # the nanoseconds for which the receiver of a stream waited for a processor
ECHO, SINK = b"E", b"S"
MAX_ECHO_BYTES = 1 << 20
MAX_SINK_BYTES = 32 << 20
PIECE_BYTES = 256 << 10
# of a stream's seconds, that count at least: while a thread waits for a processor, the kernel goes on to move bytes
LEAST_COUNTED = 0.25
IDLE_SECONDS = 10.0  # a caller that says nothing for so long is let go
MAX_CALLERS = 64  # at once; more than a job's rounds ever bring
MAX_STRANGERS = 64  # that have not greeted yet: the one that has waited longest makes room for the next
BACKLOG = 1024  # connections that the kernel keeps until we look


def proof(token: bytes, role: bytes, nonce: bytes, node: int) -> bytes:
    """What shows that its sender knows the token, for this nonce and node only."""
    return hmac.new(token, role + nonce + struct.pack("!I", node), hashlib.sha256).digest()


def receive(connection: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes.

    Raises:
        ConnectionError: the other side ended before that.
    """
    parts = []
    while size:
        part = connection.recv(min(size, PIECE_BYTES))
        if not part:
            raise ConnectionError("the peer closed the connection")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class Listener:
    """Answers the callers of this job on one address, on a port that the kernel chooses, until it is closed.

    Use it as a context manager. Callers without the job's token, and requests that are too large, are hung up on. However many
    connections strangers hold open, a caller of the job finds room: it greets at once, and they do not.
    """

    def __init__(self, address: str, token: bytes, node: int, *, lifetime_seconds: float) -> None:
        self._token = token
        self._node = node
        self._ends = time.monotonic() + lifetime_seconds
        self._socket = socket.create_server(
            (address, 0), family=socket.AF_INET6 if ":" in address else socket.AF_INET, backlog=BACKLOG
        )
        self._socket.settimeout(0.2)
        self.port: int = self._socket.getsockname()[1]
        self._slots = threading.BoundedSemaphore(MAX_CALLERS)
        self._strangers: deque[socket.socket] = deque()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._thread.join(timeout=2)
        self._socket.close()

    def _accept(self) -> None:
        while not self._closed.is_set() and time.monotonic() < self._ends:
            with contextlib.suppress(OSError):
                connection, _ = self._socket.accept()
                self._strangers.append(connection)
                if len(self._strangers) > MAX_STRANGERS:
                    hang_up(self._strangers.popleft())
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
        self._socket.close()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, struct.error):
            connection.settimeout(IDLE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            greeted = self._greeted(connection)
            with contextlib.suppress(ValueError):  # it made room for another one
                self._strangers.remove(connection)
            if greeted and self._slots.acquire(blocking=False):
                try:
                    self._answer_requests(connection)
                finally:
                    self._slots.release()

    def _greeted(self, connection: socket.socket) -> bool:
        try:
            magic, nonce, given, caller = HELLO.unpack(receive(connection, HELLO.size))
        except OSError:
            return False
        if magic != MAGIC or not hmac.compare_digest(given, proof(self._token, b"caller", nonce, caller)):
            return False
        connection.sendall(ANSWER.pack(MAGIC, proof(self._token, b"listener", nonce, self._node), self._node))
        return True

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


class Stranger(ConnectionError):  # noqa: N818 - it is who answered, not what went wrong
    """What answered is not the node that was called: another program, another job, or another node."""


def call(address: str, port: int, token: bytes, me: int, wanted: int, *, timeout_seconds: float) -> socket.socket:
    """An open connection to the listener of node `wanted`.

    Raises:
        Stranger: something else answers there.
        OSError: the connection failed.
    """
    connection = socket.create_connection((address, port), timeout=timeout_seconds)
    try:
        _greet(connection, token, me, wanted)
    except BaseException:
        connection.close()
        raise
    return connection


def _greet(connection: socket.socket, token: bytes, me: int, wanted: int) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    nonce = os.urandom(NONCE_BYTES)
    connection.sendall(HELLO.pack(MAGIC, nonce, proof(token, b"caller", nonce, me), me))
    try:
        magic, given, node = ANSWER.unpack(receive(connection, ANSWER.size))
    except ConnectionError:
        raise Stranger("the listener closed the connection during the handshake") from None
    if magic != MAGIC or not hmac.compare_digest(given, proof(token, b"listener", nonce, node)):
        raise Stranger("the listener does not know the token of this job")
    if node != wanted:
        raise Stranger(f"node {node} answers instead of node {wanted}")


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

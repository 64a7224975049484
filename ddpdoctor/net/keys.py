"""The key that two nodes share and nobody else knows, though all they say to each other stands in a store that anybody can read.

Diffie-Hellman over a fixed prime: each node publishes 2 to the power of its secret, and a pair derives its key from its
own secret and the other's public number. A reader of the store learns no key. A program that can write to the store
can still pose as a node that has not come: the store of torch asks nobody who it is.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
from collections.abc import Mapping

from ddpdoctor.transport.peer_message import PeerError

PRIME = int(
    "ffffffffffffffffc90fdaa22168c234c4c6628b80dc1cd129024e088a67cc74020bbea63b139b22514a08798e3404dd"
    "ef9519b3cd3a431b302b0a6df25f14374fe1356d6d51c245e485b576625e7ec6f44c42e9a637ed6b0bff5cb6f406b7ed"
    "ee386bfb5a899fa5ae9f24117c4b1fe649286651ece45b3dc2007cb8a163bf0598da48361c55d39a69163fa8fd24cf5f"
    "83655d23dca3ad961c62f356208552bb9ed529077096966d670c354e4abc9804f1746c08ca18217c32905e462e36ce3b"
    "e39e772c180e86039b2783a2ec07a28fb5c55df06f4c52c9de2bcbf6955817183995497cea956ae515d2261898fa0510"
    "15728e5a8aacaa68ffffffffffffffff",
    16,
)
"""RFC 3526, group 14: 2048 bits; both it and half of it, rounded down, are primes."""
GENERATOR = 2
SECRET_BITS = 256  # twice the strength of the group
PUBLIC_DIGITS = 512  # hexadecimal
MAX_WAITING = 64  # threads that wait for a public number at once: a stranger cannot make us hold more


class Keys:
    """The secret of node `node` of `nodes`, and the keys that it shares with other nodes once their public numbers are known."""

    def __init__(self, node: int, nodes: int) -> None:
        self._node = node
        self._nodes = nodes
        self._secret = 1 + secrets.randbits(SECRET_BITS)
        self.public = f"{pow(GENERATOR, self._secret, PRIME):x}"
        self._publics: dict[int, str] = {}
        self._changed = threading.Condition()
        self._may_wait = threading.BoundedSemaphore(MAX_WAITING)

    def learn(self, publics: Mapping[int, str]) -> None:
        """Take the public numbers of other nodes."""
        with self._changed:
            self._publics.update(publics)
            self._changed.notify_all()

    def of(self, node: int, *, wait_seconds: float = 0.0) -> bytes | None:
        """The 32 bytes that this node shares with `node`; None where that has no public number `wait_seconds` from now.

        A number that is no other node's is not waited for, and no more than 64 threads wait at once.

        Raises:
            PeerError: its public number is none.
        """
        if node == self._node:
            return None
        with self._changed:
            awaited = 0 <= node < self._nodes and node not in self._publics
            if awaited and self._may_wait.acquire(blocking=False):
                try:
                    self._changed.wait_for(lambda: node in self._publics, wait_seconds)
                finally:
                    self._may_wait.release()
            public = self._publics.get(node)
        if public is None:
            return None
        ends = ":".join(sorted((public, self.public)))
        shared = pow(public_number(public), self._secret, PRIME)
        return hashlib.sha256(f"ddpdoctor net:{ends}:{shared:x}".encode()).digest()


def public_number(text: str) -> int:
    """The number that a node publishes.

    Raises:
        PeerError: it is none, or one of those from which anybody can calculate the key.
    """
    try:
        number = int(text, 16) if len(text) <= PUBLIC_DIGITS else 0
    except ValueError:
        number = 0
    if not 1 < number < PRIME - 1:
        raise PeerError("its public number is not one of the group")
    return number

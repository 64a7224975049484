"""A connection to a process that may answer a byte at a time: all waits on it together end at one moment."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import Buffer

T = TypeVar("T")


class ConnectionUntil(socket.socket):
    """A stream socket whose calls raise TimeoutError from `until` (of `time.monotonic`) on, however much has come by then."""

    def __init__(self, family: socket.AddressFamily, until: float) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._until = until

    def connect(self, address: Any, /) -> None:  # noqa: ANN401 - as in the class above
        """As of a socket."""
        self._in_time(lambda: socket.socket.connect(self, address))

    def sendall(self, data: Buffer, flags: int = 0, /) -> None:
        """As of a socket."""
        self._in_time(lambda: socket.socket.sendall(self, data, flags))

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """As of a socket."""
        return self._in_time(lambda: socket.socket.recv(self, size, flags))

    def recv_into(self, buffer: Buffer, nbytes: int = 0, flags: int = 0) -> int:
        """As of a socket; files that `makefile` gives read with it."""
        return self._in_time(lambda: socket.socket.recv_into(self, buffer, nbytes, flags))

    def _in_time(self, call: Callable[[], T]) -> T:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self.settimeout(left)
        return call()

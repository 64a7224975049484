"""Asking a rank through its Unix sockets: PyTorch's worker server, and the agent's own thread."""

from __future__ import annotations

import http.client
import socket
import time
from pathlib import Path

from ddpdoctor.agent.inside.process.recorder_socket import RECORDER
from ddpdoctor.host.owned_files import check_listener
from ddpdoctor.ranks.connection_until import ConnectionUntil

MOST_BYTES = 256 << 20  # a recorder of 20,000 entries with deep stacks is about 20 MB


class NoAnswer(Exception):  # noqa: N818 - it is an answer: the rank does not
    """The rank did not answer in time, or not at all; the message says which."""


def ask_agent(path: Path, request: bytes = RECORDER, *, deadline_seconds: float, owner: int | None = None) -> bytes:
    """The pickled flight recorder, or the part of it that `request` names, from the agent's thread.

    `request` is one of those that `agent.inside.process.recorder_socket` answers. With `owner`, only a process of that user
    is asked.

    Raises:
        NoAnswer: nobody is there, or the thread cannot run: the process is stopped, or the GIL is never free.
    """
    try:
        with ConnectionUntil(socket.AF_UNIX, time.monotonic() + deadline_seconds) as connection:
            connection.connect(str(path))
            check_listener(connection, owner, path)
            connection.sendall(request)
            parts, size = [], 0
            while part := connection.recv(1 << 20):
                parts.append(part)
                size += len(part)
                if size > MOST_BYTES:
                    raise NoAnswer(f"the answer has more than {MOST_BYTES} bytes")
    except TimeoutError:
        raise NoAnswer(f"no answer within {deadline_seconds:.1f} s") from None
    except OSError as error:
        raise NoAnswer(error.strerror or str(error)) from None
    if not parts:
        raise NoAnswer("the rank closed the connection without an answer")
    return b"".join(parts)


def ask_worker_server(path: Path, handler: str, *, deadline_seconds: float, owner: int | None = None) -> bytes:
    """What the worker server's `handler` says, such as `fr_trace_json` or `dump_traceback`.

    Raises:
        NoAnswer: nobody listens, the process is stopped, or the handler is unknown to this version of PyTorch.
    """
    connection = _UnixHTTP(path, deadline_seconds, owner)
    try:
        connection.request("POST", f"/handler/{handler}", body="{}")
        response = connection.getresponse()
        body = response.read(MOST_BYTES)
    except TimeoutError:
        raise NoAnswer(f"no answer within {deadline_seconds:.1f} s") from None
    except (OSError, http.client.HTTPException) as error:
        raise NoAnswer(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None
    finally:
        connection.close()
    if response.status != http.HTTPStatus.OK:
        raise NoAnswer(f"{handler}: {response.status} {body[:200].decode(errors='replace')}")
    return body


class _UnixHTTP(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float, owner: int | None) -> None:
        super().__init__("rank")
        self._until = time.monotonic() + timeout
        self._path = path
        self._owner = owner

    def connect(self) -> None:
        self.sock = ConnectionUntil(socket.AF_UNIX, self._until)
        self.sock.connect(str(self._path))
        check_listener(self.sock, self._owner, self._path)

"""The way of one node to the rendezvous at MASTER_ADDR and MASTER_PORT, step by step, and the store behind it."""

from __future__ import annotations

import re
import resource
import socket
import struct
import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from ddpdoctor.evidence.links import MasterOutcome, MasterProbe
from ddpdoctor.net.link_test import connect_outcome, describe_error
from ddpdoctor.transport.peer_names import look_up_names_in_files_only

if TYPE_CHECKING:
    from torch._C._distributed_c10d import TCPStore

CONNECT_SECONDS = 2.0
RETRY_SECONDS = 0.2
STORE_SECONDS = 6.0  # a store answers in milliseconds; a stranger that accepts and says nothing never does
ANSWER_BYTES = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RendezvousReached:
    """Where the way to the rendezvous ended."""

    probe: MasterProbe
    """The step that it reached, with the reason where it went no further."""
    store: TCPStore | None = None
    """The store; None unless `probe.outcome` is `joined`."""
    address: str = ""
    """The address that answered, as numbers."""


def host_store(port: int) -> TCPStore:
    """A store that listens on `port` of this host, as rank 0 of a job opens it.

    Raises:
        RuntimeError: the port is taken.
    """
    from torch._C._distributed_c10d import TCPStore

    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # two connections a node
    return TCPStore(
        "localhost",
        port,
        is_master=True,
        wait_for_workers=False,
        timeout=timedelta(seconds=STORE_SECONDS),
        use_libuv=True,
    )


def reach(addr: str, port: int, *, until: float) -> RendezvousReached:
    """Resolve, connect, and speak to the store; what fails is tried again until `until`: the master may be late.

    Where something answers, this process finds host names in /etc/hosts alone from then on.
    """
    start = time.monotonic()
    outcome: MasterOutcome = "filtered"
    detail = ""
    while True:
        try:
            with socket.create_connection((addr, port), timeout=CONNECT_SECONDS) as connection:
                address, _ = socket.getnameinfo(connection.getpeername(), socket.NI_NUMERICHOST | socket.NI_NUMERICSERV)
        except socket.gaierror as error:
            outcome, detail = "unresolved", str(error.strerror)
        except OSError as error:
            kind = connect_outcome(error)
            outcome = (
                "refused" if kind in {"refused", "reset"} else "unreachable" if kind == "unreachable" else "filtered"
            )
            detail = describe_error(error)
        else:
            look_up_names_in_files_only()
            return _speak(addr, address, port, start)
        if time.monotonic() > until:
            seconds = time.monotonic() - start
            return RendezvousReached(
                probe=MasterProbe(addr=addr, port=port, outcome=outcome, detail=detail, seconds=seconds)
            )
        time.sleep(RETRY_SECONDS)


def another_connection(address: str, port: int) -> TCPStore | None:
    """One more connection to the store at `address`:`port`, for a thread; None where it cannot be made.

    A store that does not answer takes `STORE_SECONDS`.
    """
    opened = _open(address, port)
    return None if isinstance(opened, Exception) else opened


def _speak(addr: str, address: str, port: int, start: float) -> RendezvousReached:
    """Open the store at the address that answers for `addr`, in a thread that may be left behind.

    A stranger may keep it waiting for ever.
    """
    answers: list[TCPStore | Exception] = []
    speaking = threading.Thread(target=lambda: answers.append(_open(address, port)), daemon=True)
    speaking.start()
    speaking.join(STORE_SECONDS + 1)
    seconds = time.monotonic() - start
    if answers and not isinstance(answers[0], Exception):
        probe = MasterProbe(addr=addr, port=port, outcome="joined", seconds=seconds)
        return RendezvousReached(probe=probe, store=answers[0], address=address)
    answer = _ask_stranger(address, port)
    detail = (
        _decoded(str(answers[0])) if answers else f"accepts the connection, but sends nothing for {STORE_SECONDS:g} s"
    )
    outcome: MasterOutcome = "foreign" if answers or answer else "silent"
    return RendezvousReached(
        probe=MasterProbe(addr=addr, port=port, outcome=outcome, detail=detail, answer=answer, seconds=seconds)
    )


def _open(address: str, port: int) -> TCPStore | Exception:
    from torch._C._distributed_c10d import TCPStore

    try:
        return TCPStore(address, port, is_master=False, timeout=timedelta(seconds=STORE_SECONDS), use_libuv=True)
    except Exception as error:  # noqa: BLE001 - torch raises several kinds; each is an answer
        return error


def _decoded(message: str) -> str:
    """Torch prints the four bytes that it got as a number: `Got: 1347703880` is `HTTP`."""
    found = re.search(r"Got: (\d+)", message)
    if found is None:
        return message.splitlines()[0][:ANSWER_BYTES]
    raw = struct.pack("<I", int(found[1]) & 0xFFFFFFFF)
    return f"answered with the bytes {raw.decode('ascii', errors='backslashreplace')!r}"


def _ask_stranger(address: str, port: int) -> str | None:
    """The first line that a stranger says, of itself or to an HTTP request."""
    for question in (b"", b"GET / HTTP/1.0\r\n\r\n"):
        try:
            with socket.create_connection((address, port), timeout=1.0) as connection:
                connection.sendall(question)
                answer = connection.recv(ANSWER_BYTES).decode("ascii", errors="backslashreplace").strip()
        except OSError:
            continue
        if answer:
            return answer.splitlines()[0]
    return None

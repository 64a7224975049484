"""What NCCL's own RAS threads know of a running job: which processes of which communicator do not answer."""

from __future__ import annotations

import contextlib
import re
import socket
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ddpdoctor.ranks.connection_until import ConnectionUntil
from ddpdoctor.whole_numbers import whole_number

ADDRESS = "localhost:28028"  # NCCL's default for NCCL_RAS_ADDR
SECONDS = 8.0  # RAS itself waits 5 s for ranks that do not answer
MOST_BYTES = 1 << 20
PORT_DIGITS = 5
MOST_LINES = 6  # of one complaint: a job of thousands lists every outlier

_UNDERLINE = re.compile(r"^=+$")
_COMPLAINTS = {"Errors", "Warnings"}
_PROCESS = re.compile(r"\b[Pp]rocess (\d+)(?= on node (\S+))")


def ask(address: str) -> str:
    """The answer to `verbose status` at `address` (`HOST:PORT`), or an empty text where nobody answers.

    A job of any user may give the address: all connections together end after `SECONDS`, whoever answers there.
    """
    answer, until = b"", time.monotonic() + SECONDS
    for family, where in _places(address):
        with contextlib.suppress(OSError), ConnectionUntil(family, until) as connection:
            connection.connect(where)
            connection.sendall(b"verbose status\n")
            while len(answer) < MOST_BYTES and (part := connection.recv(65536)):
                answer += part
        if answer:
            break
    return answer.decode(errors="replace")


def _places(address: str) -> Iterator[tuple[socket.AddressFamily, Any]]:
    """The addresses of sockets that `address` means; none where it means none."""
    host, _, port = address.rpartition(":")
    if port.isascii() and port.isdigit() and len(port) <= PORT_DIGITS:
        with contextlib.suppress(OSError, ValueError):  # nobody knows that name, or it cannot be one
            for family, _, _, _, where in socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM):
                yield family, where


def complaints(answer: str, ranks: Mapping[int, int], here: Collection[str]) -> Iterator[str]:
    """What stands under `Errors` and `Warnings`, one sentence a complaint.

    `ranks` are those of processes on this host, whose addresses are `here`: every host counts its processes anew.
    """

    def with_rank(found: re.Match[str]) -> str:
        pid = whole_number(found[1]) if found[2] in here else None
        rank = ranks.get(pid) if pid is not None else None
        return found[0] if rank is None else f"{found[0]} (rank {rank})"

    for block in _blocks(answer.splitlines()):
        title, *lines = block
        if len(lines) > MOST_LINES:
            lines = [*lines[:MOST_LINES], f"and {len(lines) - MOST_LINES} more lines"]
        message = f"NCCL RAS: {title}: {'; '.join(lines)}" if lines else f"NCCL RAS: {title}"
        yield _PROCESS.sub(with_rank, message)


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """The paragraphs of the sections that complain; a section's heading is underlined with `=`."""
    before, complaining = "", False
    block: list[str] = []
    for line in [*(line.strip() for line in lines), ""]:
        if _UNDERLINE.match(line):
            complaining, block = before in _COMPLAINTS, []  # the heading is no complaint
        elif line and complaining:
            block.append(line)
        elif block:
            yield block
            block = []
        before = line

"""Who holds a TCP port of this host, and which port is free."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable
from typing import Any, TypeAlias

import psutil

from ddpdoctor.evidence.network import PortOwner
from ddpdoctor.launch.process_files import command_of

LISTENS = psutil.CONN_LISTEN
Connection: TypeAlias = Any  # psutil's stubs name no type for one
SUGGESTED = range(29500, 29700)  # torch's default and those after it: below every ephemeral range


def listeners(port: int) -> tuple[PortOwner, ...]:
    """Every process that listens on `port`, each once; the pid is None where it may not be seen."""
    return _owners(each for each in psutil.net_connections("tcp") if _is_at(each, port) and each.status == LISTENS)


def connected(port: int) -> tuple[PortOwner, ...]:
    """Every process with a connection whose own end is `port`: that, too, keeps others from listening there."""
    return _owners(each for each in psutil.net_connections("tcp") if _is_at(each, port) and each.status != LISTENS)


def can_bind(port: int) -> bool:
    """Whether this process could listen on `port` of every address, as torch's store does."""
    return bind_error(port) is None


def bind_error(port: int) -> int | None:
    """Why this process cannot listen on `port` of every address: EADDRINUSE, EACCES; None where it can."""
    with_ipv6 = _bind_error(socket.AF_INET6, "::", port)
    if with_ipv6 in {errno.EADDRINUSE, errno.EACCES}:  # others tell of a host without IPv6
        return with_ipv6
    return _bind_error(socket.AF_INET, "", port)


def _bind_error(family: int, address: str, port: int) -> int | None:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            candidate.bind((address, port))
            candidate.listen(1)
    except OSError as error:
        return error.errno
    return None


def _is_at(connection: Connection, port: int) -> bool:
    return bool(connection.laddr) and connection.laddr.port == port


def _owners(connections: Iterable[Connection]) -> tuple[PortOwner, ...]:
    pids = {connection.pid for connection in connections}
    return tuple(_owner(pid) for pid in sorted(pids, key=lambda pid: pid or 0))


def free_port_near(port: int) -> int | None:
    """Another port that is free now, from torch's default upwards."""
    return next((candidate for candidate in SUGGESTED if candidate != port and can_bind(candidate)), None)


def _owner(pid: int | None) -> PortOwner:
    if pid is None:
        return PortOwner(pid=None, command=None)
    command, since = None, None
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        since = process.create_time()
        command = command_of(pid) or process.name()
    return PortOwner(pid=pid, command=command, since=since, ours=pid in _ourselves())


def _ourselves() -> set[int]:
    """This process and its ancestors."""
    process = psutil.Process(os.getpid())
    found = {process.pid}
    with contextlib.suppress(psutil.Error):
        found.update(parent.pid for parent in process.parents())
    return found

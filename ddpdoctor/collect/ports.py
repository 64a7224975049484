"""Who listens on a TCP port of this host, and which port is free."""

from __future__ import annotations

import contextlib
import errno
import os
import socket

import psutil

from ddpdoctor.evidence.network import PortOwner

SUGGESTED = range(29500, 29700)  # torch's default and those after it: below every ephemeral range


def listeners(port: int) -> tuple[PortOwner, ...]:
    """Every process that listens on `port`, each once; the pid is None where it may not be seen."""
    pids = {
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    }
    return tuple(_owner(pid) for pid in sorted(pids, key=lambda pid: pid or 0))


def can_bind(port: int) -> bool:
    """Whether this process could listen on `port` of every address, as torch's store does."""
    return all(_can_bind(family, address, port) for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "")))


def _can_bind(family: int, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as candidate:
            candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            candidate.bind((address, port))
            candidate.listen(1)
    except OSError as error:
        return family == socket.AF_INET6 and error.errno not in {errno.EADDRINUSE, errno.EACCES}  # a host without IPv6
    return True


def free_port_near(port: int) -> int | None:
    """Another port that is free now, from torch's default upwards."""
    return next((candidate for candidate in SUGGESTED if candidate != port and can_bind(candidate)), None)


def _owner(pid: int | None) -> PortOwner:
    if pid is None:
        return PortOwner(pid=None, command=None)
    command, since = None, None
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(pid)
        since = process.create_time()
        command = " ".join(process.cmdline()) or process.name()
    return PortOwner(pid=pid, command=command, since=since, ours=pid in _ourselves())


def _ourselves() -> set[int]:
    """This process and its ancestors."""
    process = psutil.Process(os.getpid())
    found = {process.pid}
    with contextlib.suppress(psutil.Error):
        found.update(parent.pid for parent in process.parents())
    return found

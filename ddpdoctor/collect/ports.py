"""Who listens on a TCP port of this host."""

from __future__ import annotations

import contextlib
import os

import psutil

from ddpdoctor.evidence.network import PortOwner


def listeners(port: int) -> tuple[PortOwner, ...]:
    """Every process that listens on `port`, each once; the pid is None where it may not be seen."""
    pids = {
        connection.pid
        for connection in psutil.net_connections("tcp")
        if connection.status == psutil.CONN_LISTEN and connection.laddr and connection.laddr.port == port
    }
    return tuple(_owner(pid) for pid in sorted(pids, key=lambda pid: pid or 0))


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

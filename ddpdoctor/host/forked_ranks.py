"""Which processes that one Python forked are ranks: those that talk to each other over TCP. Loader workers use pipes."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from typing import TypeAlias

import psutil

Connection: TypeAlias = "tuple[object, object]"  # its two ends; each an address and a port


def talking(siblings: Collection[int], parent: int) -> tuple[int, ...]:
    """Those of `siblings` with a connection of their own to another of them, the one that listens first, then by age.

    A fork has the sockets of its parent as well; they show nothing. A rank that has not joined yet is not found.
    """
    inherited = _connections(parent)
    own = {pid: _connections(pid) - inherited for pid in siblings}
    found = [
        pid
        for pid in siblings
        if any((there, here) in own[other] for other in siblings if other != pid for here, there in own[pid])
    ]
    return tuple(sorted(found, key=lambda pid: (not _listens_for(pid, own, found), _age(pid), pid)))


def _connections(pid: int) -> set[Connection]:
    """The established TCP connections of a process, without those to itself."""
    with contextlib.suppress(psutil.Error, OSError):
        return {
            (one.laddr, one.raddr)
            for one in psutil.Process(pid).net_connections(kind="tcp")
            if one.status == psutil.CONN_ESTABLISHED
        }
    return set()


def _listens_for(pid: int, own: dict[int, set[Connection]], others: Iterable[int]) -> bool:
    """Whether all others are connected to one port of `pid`: it serves the store, as rank 0 does."""
    ports = [{there for here, there in own[other] if (there, here) in own[pid]} for other in others if other != pid]
    return bool(ports) and bool(set.intersection(*ports))


def _age(pid: int) -> float:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).create_time()
    return 0.0

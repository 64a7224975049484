"""Neither end of a connection to a store waits for the name service whenever the connection is made.

Torch looks up the host name of the other side of every connection, for its log: a store that serves does so in the thread that
answers all requests, and a client before it sends its first request. It gives that up after the first lookup that fails; but
a name service that says "no such name", and now and then loses a question, holds up the caller for 5 s each time, which is
glibc's timeout. Connections that time out meanwhile are made, and looked up, again.
"""

from __future__ import annotations

import ctypes
import socket
import threading

_known: dict[str, tuple[str, ...]] = {}
_lock = threading.Lock()


def look_up_names_in_files_only() -> None:
    """From now on this process finds host names in /etc/hosts alone.

    Call it in a process of ours, once it has resolved the names that it needs. Only glibc can do this; with another C library
    nothing changes.
    """
    configure = getattr(ctypes.CDLL(None), "__nss_configure_lookup", None)
    if configure is not None:
        configure(b"hosts", b"files")


def numeric_addresses(host: str) -> tuple[str, ...]:
    """The addresses of `host`, in the system's order; from then on this process finds host names in /etc/hosts alone.

    The result is cached. Where the name service does not know `host`, or not yet, the answer is `host` itself, and
    nothing changes.
    """
    with _lock:
        if host not in _known:
            try:
                found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
                numeric = (socket.getnameinfo(where, socket.NI_NUMERICHOST)[0] for *_, where in found)
                _known[host] = tuple(dict.fromkeys(numeric))
            except OSError:
                return (host,)
            look_up_names_in_files_only()
        return _known[host]

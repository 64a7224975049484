"""A store that serves does not wait for the name service whenever somebody connects.

For every connection that it accepts, torch's store looks up the host name of the other side, for its log, in the one thread
that also answers all requests. It gives that up after the first lookup that fails; but a name service that says "no such name",
and now and then loses a question, holds up the whole store for 5 s each time, which is glibc's timeout. Connections that time
out meanwhile are made, and looked up, again.
"""

from __future__ import annotations

import ctypes


def look_up_names_in_files_only() -> None:
    """From now on this process finds host names in /etc/hosts alone.

    Call it in a process of ours that serves a store, once it has resolved the names that it needs. Only glibc can do this; with
    another C library nothing changes.
    """
    configure = getattr(ctypes.CDLL(None), "__nss_configure_lookup", None)
    if configure is not None:
        configure(b"hosts", b"files")

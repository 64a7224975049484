"""Memory that was freed, and that the allocator would keep for the thread that freed it."""

from __future__ import annotations

import ctypes


def return_freed_memory() -> None:
    """Give memory that this process has freed back to the system, where the allocator is glibc's.

    Takes 1 ms in a small process, 125 ms where 500 MB were freed in pieces of 20 kB. It holds no GIL meanwhile.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

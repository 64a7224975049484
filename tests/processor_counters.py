"""Instructions and cycles of this thread's own code, as the processor counts them: a busy machine does not change the first."""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import struct
import sys
from types import TracebackType
from typing import NamedTuple

PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}  # system calls
CYCLES, INSTRUCTIONS = 0, 1  # PERF_COUNT_HW_*, of PERF_TYPE_HARDWARE
USER_ONLY = 1 << 5 | 1 << 6  # exclude_kernel, exclude_hv
ATTRIBUTE_BYTES = 128
RESET, ENABLE, DISABLE = 0x2403, 0x2400, 0x2401  # PERF_EVENT_IOC_*


class Counts(NamedTuple):
    """What a block of code took."""

    instructions: int
    cycles: int


class Counters:
    """Counts inside `with`; OSError at the start where the kernel or the processor has no counters for us."""

    def __init__(self) -> None:
        self._files = [_opened(event) for event in (INSTRUCTIONS, CYCLES)]

    def __enter__(self) -> None:
        for file in self._files:
            fcntl.ioctl(file, RESET, 0)
            fcntl.ioctl(file, ENABLE, 0)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files:
            fcntl.ioctl(file, DISABLE, 0)

    def read(self) -> Counts:
        """Those of the last block, or of the one that goes on."""
        return Counts(*(int.from_bytes(os.read(file, 8), sys.byteorder) for file in self._files))


def counters() -> Counters | None:
    """Those of this thread; None where there are none."""
    try:
        return Counters()
    except OSError:
        return None


def _opened(event: int) -> int:
    attribute = struct.pack("IIQQQQQ", 0, ATTRIBUTE_BYTES, event, 0, 0, 0, USER_ONLY | 1)  # the last bit: not yet
    attribute = attribute.ljust(ATTRIBUTE_BYTES, b"\0")
    number = PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        raise OSError(f"no counters are known of {platform.machine()}")
    libc = ctypes.CDLL(None, use_errno=True)
    file: int = libc.syscall(number, attribute, 0, -1, -1, 0)
    if file < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    os.set_inheritable(file, False)
    return file

"""Files of /proc/PID, up to a bound: where its arguments and its environment stand, a process of any user says itself.

`prctl(PR_SET_MM_MAP)` needs no privilege, and may name 64 GB that take no memory. Standard library only.
"""

from __future__ import annotations

import os
from pathlib import Path

MOST_BYTES = 2 << 20
"""Of arguments or environment: the kernel gives a new program a quarter of its stack for both, by default 2 MiB."""
MOST_MAPS_BYTES = 64 << 20
"""Of the list of mapped files: 65,530 lines, and in each a path of at most 4,095 bytes."""


def read_of_process(pid: int, name: str, *, most: int = MOST_BYTES) -> bytes:
    """The first `most` bytes of /proc/`pid`/`name`.

    Raises:
        OSError: there is no such process, or the file may not be read.
    """
    with Path(f"/proc/{pid}/{name}").open("rb") as file:
        return file.read(most)


def environment_of(pid: int) -> dict[str, str]:
    """The variables that a process was started with.

    Raises:
        OSError: there is no such process, or they may not be read.
    """
    block, _, _ = read_of_process(pid, "environ").partition(b"\0\0")
    pairs = (os.fsdecode(entry).partition("=") for entry in block.split(b"\0"))
    return {name: value for name, equals, value in pairs if equals}


def arguments_of(pid: int) -> list[str]:
    """The command line of a process, word by word; none of a kernel thread or a zombie.

    Raises:
        OSError: there is no such process, or it may not be read.
    """
    line = os.fsdecode(read_of_process(pid, "cmdline"))
    if not line:
        return []
    words = line.removesuffix("\0").split("\0")
    # a program that has written a title of its own there separates words with spaces, and may end it with a NUL
    return words if len(words) > 1 else words[0].split(" ")


def command_of(pid: int) -> str:
    """The command line of a process in one line, as a program after `python -c` has several; as `arguments_of` otherwise."""
    return " ".join(" ".join(arguments_of(pid)).split())


def maps_of(pid: int) -> str:
    """The list of files that a process has mapped; empty where there is no such process, or where it may not be read."""
    try:
        return read_of_process(pid, "maps", most=MOST_MAPS_BYTES).decode(errors="replace")
    except OSError:
        return ""

"""What a process sits in: the system call, the file, socket, pipe or lock that it is about, and who else has hold of that."""

from __future__ import annotations

import contextlib
import itertools
import os
import platform
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil

from ddpdoctor.evidence.process import A_NAMED_PIPE, A_PIPE

MOST_LINKS = 10_000  # to open files, of the processes with the highest numbers, that are compared with one pipe: 0.25 s
MOST_LINKS_OF_ONE = 1024

# man 2 syscall; the numbers that a rank may sit in, on the machines that PyTorch is built for
_X86_64 = {
    0: "read", 1: "write", 2: "open", 4: "stat", 6: "lstat", 7: "poll", 17: "pread64", 18: "pwrite64", 23: "select",
    34: "pause", 35: "nanosleep", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg", 47: "recvmsg",
    61: "wait4", 72: "fcntl", 73: "flock", 74: "fsync", 75: "fdatasync", 82: "rename", 83: "mkdir", 87: "unlink",
    202: "futex", 219: "restart_syscall", 230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 257: "openat",
    262: "newfstatat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait", 288: "accept4", 332: "statx",
}  # fmt: skip
_AARCH64 = {
    22: "epoll_pwait", 25: "fcntl", 32: "flock", 34: "mkdirat", 35: "unlinkat", 38: "renameat", 56: "openat", 63: "read",
    64: "write", 67: "pread64", 68: "pwrite64", 72: "pselect6", 73: "ppoll", 79: "newfstatat", 82: "fsync", 83: "fdatasync",
    95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep", 128: "restart_syscall", 202: "accept",
    203: "connect", 206: "sendto", 207: "recvfrom", 211: "sendmsg", 212: "recvmsg", 242: "accept4", 260: "wait4",
    291: "statx",
}  # fmt: skip
SYSTEM_CALLS = {"x86_64": _X86_64, "aarch64": _AARCH64}.get(platform.machine(), {})
LOCKS = {"flock", "fcntl"}
PIPES = {"read", "write"}
POLLS = {"poll", "ppoll"}
EVENT_LOOPS = {"epoll_wait", "epoll_pwait", "select", "pselect6"}
RESTARTED = "restart_syscall"
SLEEPS_IN = {"futex_": "futex", "poll_": "poll", "do_poll": "poll", "hrtimer_nanosleep": "clock_nanosleep"}
ABOUT_A_FILE = {
    "read", "write", "pread64", "pwrite64", "connect", "accept", "accept4", "sendto", "recvfrom", "sendmsg", "recvmsg",
    "fcntl", "flock", "fsync", "fdatasync",
}  # fmt: skip
# the calls whose first argument is a path, and those whose second is one, in the directory that the first says
BY_PATH = {"open", "stat", "lstat", "rename", "mkdir", "unlink"}
BY_PATH_AT = {"openat", "newfstatat", "statx", "mkdirat", "unlinkat", "renameat"}
LONGEST_PATH = 4096  # bytes, PATH_MAX of Linux


def system_call(pid: int) -> tuple[str | None, str | None]:
    """The system call that the main thread sits in, and the file or socket that it is about."""
    call, descriptor = call_and_file(pid)
    if descriptor is None:
        return call, _named_file(pid, call)
    try:
        target = str(descriptor.readlink())
        named_pipe = descriptor.is_fifo()
    except OSError:
        return call, None
    if descriptor.name == "0":
        return call, "standard input"
    if target.startswith("socket:["):
        return call, _socket(pid, target[8:-1])
    if target.startswith("pipe:["):
        return call, A_PIPE
    return call, f"{A_NAMED_PIPE} {target}" if named_pipe else target


def call_and_file(pid: int) -> tuple[str | None, Path | None]:
    """The system call that the main thread sits in, and its open file, as a link in /proc, where the call is about one."""
    words = read_or_nothing(Path(f"/proc/{pid}/syscall")).split()
    if not words or not words[0].isdigit():
        return None, None
    call = SYSTEM_CALLS.get(int(words[0]), f"system call {words[0]}")
    if call == RESTARTED:
        return _restarted(pid), None
    if call in POLLS and len(words) > 2 and int(words[2], 16) == 1:
        number = _polled(pid, int(words[1], 16))
        return call, Path(f"/proc/{pid}/fd/{number}") if number is not None else None
    if call not in ABOUT_A_FILE or len(words) < 2:
        return call, None
    return call, Path(f"/proc/{pid}/fd/{int(words[1], 16) & 0xFFFFFFFF}")


def _named_file(pid: int, call: str | None) -> str | None:
    """The path that the process gave this call, where a path tells the file. The file system, which may hang, is not asked."""
    words = read_or_nothing(Path(f"/proc/{pid}/syscall")).split()
    at = 1 if call in BY_PATH else 2 if call in BY_PATH_AT else len(words)
    if len(words) <= at or SYSTEM_CALLS.get(int(words[0]) if words[0].isdigit() else -1) != call:
        return None
    path, ends, _ = _memory(pid, int(words[at], 16), LONGEST_PATH).partition(b"\0")
    return os.fsdecode(path) if path and ends else None


def _restarted(pid: int) -> str:
    """The call that goes on after py-spy interrupted it, by the kernel's function in which it sleeps: its arguments are gone."""
    function = read_or_nothing(Path(f"/proc/{pid}/wchan"))
    return next((call for start, call in SLEEPS_IN.items() if function.startswith(start)), RESTARTED)


def _polled(pid: int, address: int) -> int | None:
    """The number of the open file that a process polls: the first field of a `pollfd` at this address of its memory."""
    read = _memory(pid, address, 4)
    return int.from_bytes(read, sys.byteorder) if len(read) == 4 else None


def _memory(pid: int, address: int, size: int) -> bytes:
    """At most so many bytes of a process's memory; none where it may not be read."""
    try:
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except (OSError, ValueError, OverflowError):
        return b""


def counterparts(pid: int, waits_in: str | None) -> Iterator[int]:
    """Who holds the file lock that a process waits for in this call, or has the other end of the pipe that it reads or writes."""
    call, descriptor = call_and_file(pid)
    if descriptor is None or call != waits_in:
        return
    if call in LOCKS:
        yield from _lock_holders(pid)
    elif call in PIPES:
        yield from _with_other_end(pid, descriptor, reads=call == "read")


def _with_other_end(pid: int, descriptor: Path, *, reads: bool) -> Iterator[int]:
    """The other processes that can write into the pipe that this one reads, or read from the one that it writes."""
    try:
        target = str(descriptor.readlink())
    except OSError:
        return
    if not target.startswith("pipe:["):
        return
    needed = stat.S_IWUSR if reads else stat.S_IRUSR  # the permissions of the link are those of the open file
    links = itertools.chain.from_iterable(
        open_files(other) for other in sorted(psutil.pids(), reverse=True) if other != pid
    )
    found = (link for link in itertools.islice(links, MOST_LINKS) if _is_open(link, target, needed))
    for other, _ in itertools.groupby(int(link.parts[2]) for link in found):
        yield other


def open_files(pid: int) -> Iterator[Path]:
    """The links in /proc to the first files that the process has open; none where it may not be inspected."""
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as links:
        yield from (Path(link.path) for link in itertools.islice(links, MOST_LINKS_OF_ONE))


def _is_open(link: Path, target: str, permission: int) -> bool:
    """Whether this open file is `target`, for reading or writing as the permission says; not where it has been closed."""
    try:
        return bool(link.lstat().st_mode & permission) and str(link.readlink()) == target
    except OSError:
        return False


def _socket(pid: int, inode: str) -> str:
    """`a connection to HOST:PORT`, as far as the tables of /proc/PID/net know the socket."""
    for table in ("tcp", "tcp6"):
        for line in read_or_nothing(Path(f"/proc/{pid}/net/{table}")).splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9 and fields[9] == inode:
                return f"a connection to {_address(fields[2])}"
    return "a socket"


def _address(text: str) -> str:
    """`0100007F:1F90` (each 32-bit word in the byte order of the machine) as `127.0.0.1:8080`."""
    import ipaddress

    host, _, port = text.partition(":")
    words = [bytes.fromhex(host[at : at + 8])[::-1] for at in range(0, len(host), 8)]
    address = ipaddress.ip_address(b"".join(words))
    mapped = getattr(address, "ipv4_mapped", None)
    return f"{mapped or address}:{int(port, 16)}"


def _lock_holders(pid: int) -> Iterator[int]:
    """Who holds the file lock that `pid` waits for: a waiter stands below its holder, marked with an arrow."""
    holder = ""
    for line in read_or_nothing(Path("/proc/locks")).splitlines():
        fields = line.split()
        if "->" in fields:
            if str(pid) in fields[4:6] and holder.isdigit():
                yield int(holder)
        elif len(fields) > 4:
            holder = fields[4]


def read_or_nothing(path: Path) -> str:
    """The text of a file of /proc; nothing where it is gone or may not be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""

"""How many bytes a process has received and sent over the connections that its main thread may wait for."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from ddpdoctor.host.system_calls import EVENT_LOOPS, POLLS, RESTARTED, call_and_file, open_files
from ddpdoctor.whole_numbers import whole_number

# man 7 sock_diag, linux/inet_diag.h and linux/tcp.h
NETLINK_SOCK_DIAG = 4
SOCK_DIAG_BY_FAMILY = 20
REQUEST_DUMP = 0x301
INFO = 2
ALL_STATES = 0xFFFFFFFF
HEADER = struct.Struct("=IHHII")  # length, type, flags, sequence number, port
REQUEST = struct.Struct("=BBBBI48x")  # family, protocol, extensions, padding, states, no single socket
INODE_AT, ATTRIBUTES_AT = 68, 72  # in `inet_diag_msg`
ATTRIBUTE = struct.Struct("=HH")  # length, type
ACKED_AND_RECEIVED = struct.Struct("=QQ")
COUNTERS_AT = 120  # of these two in `tcp_info`, since Linux 4.1
REPLY_BYTES = 1 << 16
ANSWER_SECONDS = 1.0
SOCKET = "socket:["


def waited_for(pid: int) -> frozenset[int]:
    """The number of the socket that the main thread waits for, or of all that the process has where its call does not tell.

    A poll that py-spy has interrupted goes on as another call, which names no file.
    """
    call, descriptor = call_and_file(pid)
    if descriptor is not None:
        return frozenset(_numbers([descriptor]))
    if call not in {None, RESTARTED, *POLLS, *EVENT_LOOPS}:
        return frozenset()
    return frozenset(_numbers(open_files(pid)))


def _numbers(links: Iterable[Path]) -> Iterator[int]:
    for link in links:
        with contextlib.suppress(OSError):
            target = str(link.readlink())
            number = whole_number(target[len(SOCKET) : -1]) if target.startswith(SOCKET) else None
            if number is not None:
                yield number


def moved_bytes() -> dict[int, int]:
    """By the socket's number, what each TCP connection of this network namespace has received, and sent with success."""
    return {**_of_family(socket.AF_INET), **_of_family(socket.AF_INET6)}


def moved_between(
    sockets: Mapping[int, Collection[int]], before: Mapping[int, int], after: Mapping[int, int]
) -> dict[int, int]:
    """By process, the bytes that its sockets moved; one without a connection that was there both times is left out."""
    lasting = {
        pid: [number for number in numbers if number in before and number in after] for pid, numbers in sockets.items()
    }
    return {
        pid: sum(after[number] - before[number] for number in numbers) for pid, numbers in lasting.items() if numbers
    }


def _of_family(family: int) -> dict[int, int]:
    try:
        return dict(_asked_for(family))
    except (OSError, AttributeError, struct.error):  # no netlink here, or a kernel that answers otherwise
        return {}


def _asked_for(family: int) -> Iterator[tuple[int, int]]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM, NETLINK_SOCK_DIAG) as asked:
        asked.settimeout(ANSWER_SECONDS)
        request = REQUEST.pack(family, socket.IPPROTO_TCP, 1 << (INFO - 1), 0, ALL_STATES)
        asked.send(HEADER.pack(HEADER.size + len(request), SOCK_DIAG_BY_FAMILY, REQUEST_DUMP, 1, 0) + request)
        while True:
            for kind, body in _messages(asked.recv(REPLY_BYTES)):
                if kind != SOCK_DIAG_BY_FAMILY:
                    return  # the end of the list, or an error
                counted = _counted(body)
                if counted is not None:
                    yield struct.unpack_from("=I", body, INODE_AT)[0], counted


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + HEADER.size <= len(data):
        length, kind, *_ = HEADER.unpack_from(data, at)
        yield kind, data[at + HEADER.size : at + length]
        at += max(HEADER.size, length + 3 & ~3)


def _counted(body: bytes) -> int | None:
    for kind, value in _attributes(body):
        if kind == INFO and len(value) >= COUNTERS_AT + ACKED_AND_RECEIVED.size:
            acked, received = ACKED_AND_RECEIVED.unpack_from(value, COUNTERS_AT)
            return int(acked) + int(received)
    return None


def _attributes(body: bytes) -> Iterable[tuple[int, bytes]]:
    at = ATTRIBUTES_AT
    while at + ATTRIBUTE.size <= len(body):
        length, kind = ATTRIBUTE.unpack_from(body, at)
        yield kind, body[at + ATTRIBUTE.size : at + length]
        at += max(ATTRIBUTE.size, length + 3 & ~3)

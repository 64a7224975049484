"""One direction of one link: connect, small echo, 64 KiB both ways, one stream. The first that fails is the outcome."""

from __future__ import annotations

import errno
from collections.abc import Callable
from functools import partial

from ddpdoctor.evidence.links import LinkOutcome, NodeLink
from ddpdoctor.net.tcp import MAX_SINK_BYTES, WrongPeer, call, echo, stream

CONNECT_SECONDS = 3.0  # a lost SYN is sent again after one second, and after two more
ECHO_SECONDS = 3.0
STREAM_SECONDS = 4.0
SMALL_BYTES = 64
LARGE_BYTES = 64 << 10  # more than any MTU: a path that drops large packets without a word stalls here
ECHOES = 5
FIRST_STREAM_BYTES = 1 << 20
ENOUGH_SECONDS = 0.05  # a stream that lasts this long is not measured by its start alone
STREAMS = 3  # the best counts: a busy host halts one of them now and then


def talk(me: int, other: int, address: str, port: int, key: bytes) -> NodeLink:
    """What node `me` finds when it talks to node `other`, with which it shares `key`."""
    try:
        connection = call(address, port, key, me, other, timeout_seconds=CONNECT_SECONDS)
    except WrongPeer as stranger:
        return NodeLink(source=me, target=other, outcome="foreign", detail=str(stranger))
    except OSError as error:
        return NodeLink(
            source=me, target=other, outcome=connect_outcome(error), detail=f"{address}:{port}: {describe_error(error)}"
        )
    with connection:
        try:
            connection.settimeout(ECHO_SECONDS)
            latency = min(echo(connection, SMALL_BYTES) for _ in range(ECHOES)) / 2
        except OSError as error:
            return _broken(me, other, "small-stalls", f"{SMALL_BYTES} bytes: {describe_error(error)}", error)
        try:
            echo(connection, LARGE_BYTES)
        except OSError as error:
            return _broken(
                me, other, "large-stalls", f"{LARGE_BYTES >> 10} KiB: {describe_error(error)}", error, latency
            )
        try:
            connection.settimeout(STREAM_SECONDS)
            speed = fastest(partial(stream, connection), most=MAX_SINK_BYTES)
        except OSError as error:
            return _broken(me, other, "large-stalls", f"a stream: {describe_error(error)}", error, latency)
    return NodeLink(source=me, target=other, outcome="ok", latency_seconds=latency, bytes_per_second=speed)


def connect_outcome(error: OSError) -> LinkOutcome:
    """What kind of no a failed connection is."""
    if isinstance(error, ConnectionRefusedError):
        return "refused"
    if isinstance(error, ConnectionError):
        return "reset"
    if error.errno in {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.EINVAL, errno.ENETDOWN}:
        return "unreachable"
    return "filtered"


def describe_error(error: OSError) -> str:
    """The error as one says it."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return (error.strerror or str(error) or type(error).__name__).lower()


def fastest(send: Callable[[int], float], *, most: int) -> float:
    """Bytes a second of the best of some streams, lengthened up to `most` bytes until they last long enough to tell.

    `send` sends so many bytes and returns the seconds until all had come.
    """
    size = FIRST_STREAM_BYTES
    while (seconds := send(size)) < ENOUGH_SECONDS and size < most:
        size = min(most, size * 4)
    for _ in range(STREAMS - 1):
        if seconds < STREAM_SECONDS / STREAMS:
            seconds = min(seconds, send(size))
    return size / seconds


def _broken(
    me: int, other: int, stall: LinkOutcome, detail: str, error: OSError, latency: float | None = None
) -> NodeLink:
    outcome: LinkOutcome = "reset" if isinstance(error, ConnectionError) else stall
    return NodeLink(source=me, target=other, outcome=outcome, detail=detail, latency_seconds=latency)

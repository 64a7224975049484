"""Error messages of PyTorch, NCCL and gloo that tell their cause, and those that only echo somebody else's end."""

from __future__ import annotations

import re
from enum import Enum

IMPOSSIBLE_PARAMETERS = 1_000_000  # more parameter tensors than any model has: the number itself was never exchanged


class Echo(Enum):
    """What an error says about a peer, without saying why."""

    MISMATCHED = "a peer sent another amount than was expected"
    PEER_GONE = "a peer closed the connection"
    TIMED_OUT = "a peer did not come in time"
    ENDED = "somebody ended this rank"


OF_A_PEER = (Echo.MISMATCHED, Echo.PEER_GONE, Echo.TIMED_OUT)
_ECHOES = (
    (Echo.MISMATCHED, re.compile(r"op\.preamble\.length <= op\.nbytes")),
    (
        Echo.PEER_GONE,
        re.compile(
            r"Connection closed by peer|pair\.cc.*(?:Connection reset by peer|Broken pipe|Socket closed)|"
            r"unbound_buffer\.cc.*Connection|ncclRemoteError|remote process exited or there was a network error|"
            r"[Ff]ailed to recv, got 0 bytes|Broken pipe.*TCPStore|TCPStore.*(?:Broken pipe|Connection reset)|"
            r"NCCL communicator (?:was|has been) aborted|Application timeout caused pair closure|"
            r"Connection was likely closed\. Did the remote server shutdown or crash|successfully reached monitoredBarrier, but"
        ),
    ),
    (
        Echo.TIMED_OUT,
        re.compile(
            r"Timed out waiting \d+ms for (?:recv|send) operation|Watchdog caught collective operation timeout|"
            r"collective operation timeout|Timeout\(ms\)=|wait timeout after \d+ms|timed out in monitoredBarrier|"
            r"failed to pass monitoredBarrier|watchdog got stuck for \d+ seconds|Heartbeat monitor timed out!"
        ),
    ),
    (Echo.ENDED, re.compile(r"^(?:SignalException|KeyboardInterrupt)\b|Signal 15 \(SIGTERM\) received by PID")),
)

_KNOWN = (
    # TORCH_DISTRIBUTED_DEBUG=DETAIL compares two ranks' collectives: another operation or number, or else another shape
    (
        "DDP301",
        re.compile(
            r"Detected mismatch between collectives on ranks.*?"
            r"(?:OpType=(\w+)\b.*?OpType=(?!\1\b)|SequenceNumber=(\d+)\b.*?SequenceNumber=(?!\2\b))",
            re.DOTALL,
        ),
    ),
    ("DDP302", re.compile(r"Detected mismatch between collectives on ranks")),
    ("DDP412", re.compile(r"your training graph has changed in this iteration")),
    (
        "DDP404",
        re.compile(
            r"Expected to have finished reduction in the prior iteration before starting a new one|"
            r"parameters that were not used in producing (?:the )?loss"
        ),
    ),
    ("DDP405", re.compile(r"Expected to mark a variable ready only once")),
    (
        "DDP406",
        re.compile(
            r"DDP expects same model across all ranks|appears not to match (?:sizes|strides) of the same param|"
            r"appears not to match (?:sizes|strides)"
        ),
    ),
    ("DDP407", re.compile(r"(?:CUDA|HIP|XPU) out of memory|OutOfMemoryError")),
    (
        "DDP409",
        re.compile(
            r"unable to (?:allocate|open|mmap|resize) shared memory|unable to mmap \d+ bytes from file </torch|"
            r"worker \(pid[^)]*\) is killed by signal: Bus error|/dev/shm.*No space left|No space left.*/dev/shm|"
            r"Unexpected bus error encountered in worker"
        ),
    ),
    ("DDP410", re.compile(r"[Tt]oo many open files|received 0 items of ancdata")),
    ("DDP413", re.compile(r"Distributed package doesn't have (?:\w+) built in")),
    (
        "DDP414",
        re.compile(
            r"environment variable \w+ expected, but not set|unrecognized arguments: --local[-_]rank|"
            r"the following arguments are required: --local[-_]rank"
        ),
    ),
    ("DDP415", re.compile(r"Duplicate GPU detected")),
    (
        "DDP417",
        re.compile(
            r"Can't (?:pickle|get) local object|Can't get attribute '[^']*' on <module '__m|"
            r"start a new process before the\s+current process has finished its bootstrapping phase|bootstrapping phase|"
            r"Safe importing of main module"
        ),
    ),
    (
        "DDP418",
        re.compile(
            r"nccl(?:UnhandledCudaError|SystemError|InternalError|InvalidUsage|InvalidArgument)|"
            r"unhandled (?:system|cuda) error|Bootstrap : no socket interface found|NET/IB : Got completion|"
            r"NCCL WARN (?:Message truncated|Mismatched collective detected|Call to \w+ (?:failed|returned))|"
            r"NCCL (?:internal|invalid usage|system) error"
        ),
    ),
)
_COUNTS = re.compile(r"has (\d+) params, while rank (\d+) has inconsistent (\d+) params")


def known_cause(text: str) -> str | None:
    """The code whose cause this error message tells, or None where it is the user's own or an echo."""
    for code, pattern in _KNOWN:
        if pattern.search(text):
            return "DDP416" if code == "DDP406" and _never_exchanged(text) else code
    return None


def echo(text: str) -> Echo | None:
    """What this error message says of a peer, or None where it is the rank's own."""
    return next((kind for kind, pattern in _ECHOES if pattern.search(text)), None)


def _never_exchanged(text: str) -> bool:
    """Whether the number of parameters that a peer is said to have can be that of no model."""
    found = _COUNTS.search(text)
    return found is not None and not 0 < int(found[3]) < IMPOSSIBLE_PARAMETERS

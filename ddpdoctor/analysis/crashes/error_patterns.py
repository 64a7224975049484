"""The texts of errors that rules declare, as one table, and the texts that only show somebody else's failure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.model import ErrorPattern, Rule

MAX_TEXT = 1 << 14  # characters of one message that patterns are searched in


class SecondaryError(Enum):
    """What an error says about a peer, without saying why."""

    MISMATCHED = "a peer sent another amount than was expected"
    PEER_GONE = "a peer closed the connection"
    TIMED_OUT = "a peer did not come in time"
    ENDED = "somebody ended this rank"


OF_A_PEER = (SecondaryError.MISMATCHED, SecondaryError.PEER_GONE, SecondaryError.TIMED_OUT)
_ECHOES = (
    (SecondaryError.MISMATCHED, re.compile(r"op\.preamble\.length <= op\.nbytes")),
    (
        SecondaryError.PEER_GONE,
        re.compile(
            r"Connection closed by peer|pair\.cc.{0,400}(?:Connection reset by peer|Broken pipe|Socket closed)|"
            r"unbound_buffer\.cc.{0,400}Connection|ncclRemoteError|\[Proxy Service \d+\] Failed to execute|Error encountered "
            r"progressing operation|remote process exited or there was a network|"
            r"[Ff]ailed to recv, got 0 bytes|Broken pipe.{0,400}TCPStore|TCPStore.{0,400}(?:Broken pipe|Connection reset)|"
            r"NCCL communicator (?:was|has been) aborted|Application timeout caused pair closure|"
            r"Connection was likely closed\. Did the remote server shutdown or crash|successfully reached monitoredBarrier, but|"
            r"Connection closed by remote peer|"
            r"Call to (?:recv|send) (?:(?:from|to) .{0,300})?failed ?: (?:Connection reset by peer|Broken pipe)|"
            r"(?:recvValue|sendBytes) failed|Failed to check the .should dump. flag|"
            r"Socket recv failed while polling|ncclUniqueId from .{0,400}Connecti(?:on (?:reset|closed)|o?n?$)|DistNetworkError: "
            r"Connection (?:reset|closed)|"
            # as C++ code of torch says it: a socket of Python raises an error with a type of its own
            r"^RuntimeError: (?:Connection (?:reset|closed) by peer|Broken pipe)$"
        ),
    ),
    (
        SecondaryError.TIMED_OUT,
        re.compile(
            r"RPC call to \w+ timed out|Timed out waiting \d+ms for (?:recv|send) operation|"
            r"collective operation timeout|Timeout\(ms\)=|wait timeout after \d+ms|timed out in monitoredBarrier|"
            r"DistStoreError: Socket Timeout|"
            r"failed to pass monitoredBarrier|watchdog got stuck for \d+ seconds|Heartbeat monitor timed out!|"
            r"dump signal (?:due to a collective timeout )?from\s+(?:another |this local )?rank|"
            r"caused the desync are:|didn't (?:join|finish) collective #\d|"
            # of Ascend's HCCL, the last as its runtime says that a stream waited in vain
            r"Remote Rank did not send the data in time|Notify register times out|hccl [\w ]{1,40}timeout occurred|"
            r"reason=\[(?:task|stream sync) timeout\]|"
            r"error code is (?:107020|507046|507048)\b"
        ),
    ),
    (
        SecondaryError.ENDED,
        re.compile(r"^(?:SignalException|KeyboardInterrupt)\b|Signal 15 \(SIGTERM\) received by PID"),
    ),
)

# a rank that waits for the first word of its group's first rank has not been in a collective yet
_OF_THE_RENDEZVOUS = re.compile(
    r"ncclUniqueId from \[\d{1,9}\] .{0,300}(?:wait timeout|Socket Timeout|Timeout waiting)"
)


@dataclass(frozen=True, slots=True)
class KnownError:
    """A text that a rule declares."""

    code: str
    """The rule's code."""
    pattern: ErrorPattern
    """The rule's pattern."""
    groups: dict[str, str]
    """The named groups of the pattern that took part in the match."""
    text: str = ""
    """The part of the text that matches."""


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """Every text that a rule declares, in the order in which they count."""

    entries: tuple[tuple[str, ErrorPattern, re.Pattern[str]], ...]
    """Code, pattern, and the pattern's regex compiled; wrappers last."""

    @classmethod
    def of(cls, rules: Iterable[Rule]) -> ErrorTable:
        """The table of these rules."""
        declared = [(rule.code, error) for rule in rules for error in rule.errors]
        declared.sort(key=lambda entry: (entry[1].wrapper, entry[0]))
        return cls(tuple((code, error, re.compile(error.regex)) for code, error in declared))

    def find(self, text: str, stack: Sequence[Frame] = ()) -> KnownError | None:
        """What `text` belongs to; None where it is the user's own or shows only somebody else's failure."""
        return next(self.all_in(text, stack), None)

    def all_in(self, text: str, stack: Sequence[Frame] = ()) -> Iterator[KnownError]:
        """Everything that `text` can belong to, what counts most first."""
        text = text[:MAX_TEXT]
        for code, pattern, regex in self.entries:
            found = regex.search(text)
            if found is not None and (pattern.applies is None or pattern.applies(text)) and _fits(pattern, stack):
                groups = {name: each for name, each in found.groupdict().items() if each}
                yield KnownError(code, pattern, groups, found[0])


def _fits(pattern: ErrorPattern, stack: Sequence[Frame]) -> bool:
    if not pattern.frames:
        return True
    if not stack:
        return pattern.without_stack
    return any(re.search(pattern.frames, f"{frame.file}:{frame.function}") for frame in stack)


def secondary_error(text: str) -> SecondaryError | None:
    """What this error message says of a peer, or None where it is the rank's own."""
    if _OF_THE_RENDEZVOUS.search(text):
        return None
    return next((kind for kind, pattern in _ECHOES if pattern.search(text)), None)

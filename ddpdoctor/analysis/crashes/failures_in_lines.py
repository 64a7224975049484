"""Failures that only lines of the log show, without an exception and without a rank."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

from ddpdoctor.analysis.crashes.error_patterns import ErrorTable, KnownError, SecondaryError, secondary_error
from ddpdoctor.analysis.crashes.failure import Failure
from ddpdoctor.evidence.job_log import FailureLine, JobLog
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.model import ErrorPattern

_WARNING = re.compile(r"^\[?W\d{0,4} |^WARNING\b")
_OF_RENDEZVOUS = ("DDP20", "DDP22")
# the second of Ray, which writes both into one line
_THROWN = re.compile(
    r"terminate called after throwing an instance of '(?P<type>[^']{1,200})'|Unhandled exception: (?P<mangled>\w{1,200})\."
)
_WHAT = re.compile(r"what\(\): +(?P<message>\S.*)")
SHOWN_LINES = 20
LINES_TO_LAST_ERROR = 3  # from NCCL's name of an error to what it quotes below `Last error:`

DeclaredLine: TypeAlias = tuple[FailureLine, KnownError]
"""A line, and the rule that declares its text."""


def failures_in_lines(log: JobLog, found: Sequence[Failure], table: ErrorTable, *, running: bool) -> Iterator[Failure]:
    """The failures that lines of no rank show, where none of `found` shows the same.

    A warning of the rendezvous counts where nothing else failed: what it warns of is tried again. Of a job that still runs no
    line counts but those of C++ code that gives up.
    """
    lines = [line for line in log.failure_lines if line.rank is None] or [FailureLine(text=text) for text in log.said]
    by_code = _declared(lines, found, table, running=running)
    own = any(failure.error is not None and failure.code is None and not failure.secondary_error for failure in found)
    plain = {code for code, declared in by_code.items() if not _only_warns(declared) and not _only_wraps(declared)}
    codes = plain | {failure.code for failure in found if failure.code is not None}
    failed_elsewhere = own or any(not code.startswith(_OF_RENDEZVOUS) for code in codes)
    is_unwrapped = bool(plain) or own or any(not pattern.wrapper for pattern in _patterns(found))
    for declared in by_code.values():
        if (_only_wraps(declared) and is_unwrapped) or (_only_warns(declared) and failed_elsewhere):
            continue
        text = "\n".join(dict.fromkeys(line.text for line, _ in declared[:SHOWN_LINES]))
        yield Failure(rank=None, exit=RankExit(exit_code=None), error=None, text=text, known=declared[0][1])
    lost = next((line.text for line in lines if secondary_error(line.text) is not None), None)
    if lost is not None and not by_code and not found:
        kind = secondary_error(lost)
        yield Failure(rank=None, exit=RankExit(exit_code=None), error=None, text=lost, secondary_error=kind)


def uncaught_exceptions(log: JobLog) -> Iterator[RankError]:
    """The exceptions that C++ ended processes with because nobody caught them."""
    kind = ""
    for line in log.failure_lines:
        if found := _THROWN.search(line.text):
            kind = found["type"] or found["mangled"]
        if kind and (found := _WHAT.search(line.text)):
            yield RankError(type=kind, message=found["message"])


def _declared(
    lines: Sequence[FailureLine], found: Sequence[Failure], table: ErrorTable, *, running: bool
) -> dict[str, list[DeclaredLine]]:
    """The lines that rules declare, and that `found` does not show already, by the code of the rule."""
    codes, patterns = {failure.code for failure in found}, _patterns(found)
    by_code: dict[str, list[DeclaredLine]] = {}
    for line in lines:
        match = table.find(line.text) if secondary_error(line.text) is None else None
        if match is None or match.pattern in patterns or (running and _WARNING.match(line.text)):
            continue
        if not match.pattern.wrapper or not (match.code in codes or _begins_an_echo(line, lines, found)):
            by_code.setdefault(match.code, []).append((line, match))
    return by_code


def _patterns(found: Iterable[Failure]) -> list[ErrorPattern]:
    return [failure.known.pattern for failure in found if failure.known is not None]


def _begins_an_echo(line: FailureLine, lines: Sequence[FailureLine], found: Iterable[Failure]) -> bool:
    """Whether a line begins a message that turns out to be a secondary error."""
    if any(failure.secondary_error and failure.text.partition("\n")[0] in line.text for failure in found):
        return True
    if any(failure.secondary_error and line.text in failure.text for failure in found):
        return True
    after = (other for other in lines if 0 < other.number - line.number <= LINES_TO_LAST_ERROR)
    return any(secondary_error(other.text) is SecondaryError.PEER_GONE for other in after)


def _only_warns(declared: Sequence[DeclaredLine]) -> bool:
    return all(_WARNING.match(line.text) for line, _ in declared)


def _only_wraps(declared: Sequence[DeclaredLine]) -> bool:
    return declared[0][1].pattern.wrapper

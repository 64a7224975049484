"""What Horovod says of a stall: the operations that some ranks have submitted, and the ranks that it misses there."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.model import SkipCheck

_MISSING = re.compile(r"(?P<op>\w[\w./]{0,200}) \[missing ranks: (?P<ranks>\d{1,9}(?:, ?\d{1,9})*)")
_STALLED = re.compile(r"^(?P<ranks>\d{1,9}): \[(?P<op>\w[\w./]{0,200})")


@dataclass(frozen=True, slots=True, kw_only=True)
class HorovodStall:
    """Ranks that have not come to an operation that others wait in."""

    ranks: tuple[int, ...]
    """The ranks that Horovod misses; empty where it misses other ranks in other operations."""
    op: str
    """The first of the operations."""


def derive(log: JobLog) -> HorovodStall:
    """The ranks that the lines of Horovod's coordinator name.

    Raises:
        SkipCheck: there are no such lines.
    """
    found = [
        match
        for line in log.failure_lines
        for match in [_MISSING.search(line.text) or _STALLED.match(line.text)]
        if match
    ]
    if not found:
        raise SkipCheck("no line of Horovod about a stall")
    missed = {tuple(sorted({*map(int, re.findall(r"\d{1,9}", match["ranks"]))})) for match in found}
    return HorovodStall(ranks=missed.pop() if len(missed) == 1 else (), op=found[0]["op"])

"""Prefixes that one log has shown before lines that are unmistakable: they are taken off its other lines as well."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MOST_PREFIXES = 1 << 12  # of one file; a job has not more hosts and pods
_LABEL = re.compile(
    r"^(?P<label>\[[\w./-]{1,80}\]|[\w./-]{1,80}(?: \[std(?:out|err)\]| *[:|])|[\w.-]{1,60}/\d{1,9} ) ?"
)
_LOGGER = re.compile(
    r"^(?:ERROR|WARNING|INFO|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) (?P<place>\[?[\w./-]{1,80}:\d{1,9}\]) ?"
)
_OF_AN_ERROR = re.compile(r"(?:Error|Exception|Warning)[:|]?$")
_DIGIT = re.compile(r"\d")


@dataclass(slots=True)
class SeenPrefixes:
    """What one file has shown so far."""

    labels: set[str] = field(default_factory=set)
    """`node03:`, `worker-1 |`, `engine.py:45]`: of collectors, and the places of loggers."""
    ranks: dict[int, int | None] = field(default_factory=dict)
    """By the number of a tee's prefix the one rank that torch has shown behind it; None where it has shown several."""

    def learn_label(self, prefix: str) -> None:
        """A collector has put this before a line that only torch or Python writes. A word of an error is no label."""
        label = prefix.strip()
        if _DIGIT.search(label) and not _OF_AN_ERROR.search(label) and len(self.labels) < MOST_PREFIXES:
            self.labels.add(label)

    def learn_logger(self, prefix: str) -> None:
        """A logger has put this before a line of a traceback: all lines from this place of its program are of tracebacks."""
        if (found := _LOGGER.match(prefix)) is not None and len(self.labels) < MOST_PREFIXES:
            self.labels.add(found["place"])

    def learn_rank(self, number: int, rank: int) -> None:
        """Behind a tee's `[default0]:` stood `[rank8]:`: its number is that of a local rank."""
        if number in self.ranks or len(self.ranks) < MOST_PREFIXES:
            self.ranks[number] = rank if self.ranks.get(number, rank) == rank else None

    def without_label(self, text: str) -> str:
        """The line without a label that the log has shown before."""
        found = _LABEL.match(text) if self.labels else None
        return text[found.end() :] if found is not None and found["label"].strip() in self.labels else text

    def without_logger(self, text: str) -> tuple[str, str]:
        """The line without the prefix of a logger that the log has shown before, and the time in it."""
        found = _LOGGER.match(text) if self.labels else None
        if found is None or found["place"] not in self.labels:
            return text, ""
        return text[found.end() :], found["time"]

    def rank_of(self, number: int) -> int | None:
        """The rank that a tee's number stands for: the number itself where nothing shows another one."""
        return self.ranks.get(number, number)

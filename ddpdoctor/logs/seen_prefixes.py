"""Prefixes that one log has shown before lines that are unmistakable: they are taken off its other lines as well."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ddpdoctor.logs.tracebacks import HEAD

LONGEST_PREFIX = 200  # characters
MOST_UNKNOWN = 16  # of prefixes that only tracebacks have shown: each line is compared with all of them
MOST_PREFIXES = 1 << 12  # of one file; a job has not more hosts and pods
_LABEL = re.compile(
    r"^(?P<label>\[[\w./-]{1,80}\]|[\w./-]{1,80}(?: \[std(?:out|err)\]| *[:|])|[\w.-]{1,60}/\d{1,9} ) ?"
)
_LOGGER = re.compile(
    r"^(?:ERROR|WARNING|INFO|CRITICAL) (?P<time>\d\d-\d\d \d\d:\d\d:\d\d) (?P<place>\[?[\w./-]{1,80}:\d{1,9}\]) ?"
)
_OF_AN_ERROR = re.compile(r"(?:Error|Exception|Warning|[A-Z]{5,8})[:|]?$")
# of Ray Train: the controller's list of its workers, and a worker itself
_RANK_OF_WORKER = re.compile(
    r"^- \([^()]{0,200}\b(?P<pid>pid=\d+)\) (?:world_)?rank=(?P<listed>\d+)|"
    r"Setting up process group for: \S{1,200} \[rank=(?P<own>\d+), "
)
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"(\d+)")
_HEAD = re.compile(rf"(?:\[rank\d{{1,9}}\]: ?)?{re.escape(HEAD)}")
_FRAME = re.compile(r"^(?:\[rank\d{1,9}\]: ?)?  File \"")


@dataclass(slots=True)
class SeenPrefixes:
    """What one file has shown so far."""

    labels: set[str] = field(default_factory=set)
    """`node03:`, `worker-1 |`, `engine.py:45]`: of collectors, and the places of loggers."""
    ranks: dict[int | str, int | None] = field(default_factory=dict)
    """By a tee's number the one rank that torch has shown behind it, by `pid=N` that of a Ray worker; None of several."""

    prefixes: list[re.Pattern[str]] = field(default_factory=list)
    """What nobody knows, and what stood before the head of a traceback and its first frame alike; its numbers may change."""
    _before_head: re.Pattern[str] | None = None

    def learn_label(self, prefix: str, line: str) -> None:
        """A collector has put this before a line that only torch or Python writes. A word of an error is no label.

        A word without a number is one where it stands before a frame of a traceback.
        """
        label = prefix.strip()
        is_label = _DIGIT.search(label) or _FRAME.match(line)
        if is_label and not _OF_AN_ERROR.search(label) and len(self.labels) < MOST_PREFIXES:
            self.labels.add(label)

    def learn_logger(self, prefix: str) -> None:
        """A logger has put this before a line of a traceback: all lines from this place of its program are of tracebacks."""
        if (found := _LOGGER.match(prefix)) is not None and len(self.labels) < MOST_PREFIXES:
            self.labels.add(found["place"])

    def learn_rank(self, mark: int | str, rank: int) -> None:
        """Behind a tee's `[default0]:` stood `[rank8]:`: its number is that of a local rank."""
        if mark in self.ranks or len(self.ranks) < MOST_PREFIXES:
            self.ranks[mark] = rank if self.ranks.get(mark, rank) == rank else None

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

    def without_prefix(self, text: str) -> tuple[str, str]:
        """The line without a prefix that only a traceback of this log has shown, and this prefix."""
        for prefix in self.prefixes:
            if found := prefix.match(text):
                return text[found.end() :], found[0]
        head, before, self._before_head = _HEAD.search(text[: 2 * LONGEST_PREFIX]), self._before_head, None
        if head is not None and text[: head.start()].strip() and head.start() <= LONGEST_PREFIX:
            self._before_head = _with_any_numbers(text[: head.start()])
        found = before.match(text) if before is not None else None
        if before is None or found is None or not _FRAME.match(text[found.end() :]):
            return text, ""
        if len(self.prefixes) < MOST_UNKNOWN:
            self.prefixes.append(before)
        return text[found.end() :], found[0]

    def rank_of_worker(self, pid: str, text: str) -> int | None:
        """The rank of the Ray worker with this `pid=N`, where this line or an earlier one of Ray Train has told it."""
        if found := _RANK_OF_WORKER.search(text):
            self.learn_rank(found["pid"] or pid, int(found["listed"] or found["own"]))
        return self.ranks.get(pid)

    def rank_of(self, number: int) -> int | None:
        """The rank that a tee's number stands for: the number itself where nothing shows another one."""
        return self.ranks.get(number, number)


def _with_any_numbers(prefix: str) -> re.Pattern[str]:
    return re.compile("".join(r"\d+" if _NUMBER.fullmatch(part) else re.escape(part) for part in _NUMBER.split(prefix)))

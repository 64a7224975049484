"""Where in a job log torchrun's attempts end: with `--max-restarts` it starts its ranks again after one has failed."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

MOST_ATTEMPTS = 20  # of a job that was restarted more often, all further ones are read as one
_FAILED = re.compile(
    r"^[EW]\d{4} [\d:.]+ (?P<launcher>\d+) torch/distributed/elastic/multiprocessing/.* failed \(exitcode: "
)


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """A line by which a torchrun says that a rank has failed: one for each attempt."""

    file: str
    """The path of the log."""
    line: int
    """The number of the line, among all that were read."""
    launcher: int
    """The process id of torchrun."""


def failed_launcher(text: str) -> int | None:
    """The process id of the torchrun that says in this line that a rank has failed; None of other lines."""
    found = _FAILED.match(text)
    return int(found["launcher"]) if found is not None else None


@dataclass(frozen=True, slots=True)
class LogAttempts:
    """Where the attempts of a job are in the files of its log."""

    cuts: Mapping[str, tuple[int, ...]]
    """By file, the lines after which another attempt began, as `AttemptEnd.line`; without files that show none."""

    @classmethod
    def between(cls, ends: Sequence[AttemptEnd], *, restarts: int = 0, went_on: bool = False) -> LogAttempts:
        """The attempts that these lines show, or `restarts` more than one, which something else has shown.

        The last failure of a launcher is followed by another one, or by the launcher's own end; `went_on`: or by ranks at work.
        """
        cuts = {}
        for file in dict.fromkeys(end.file for end in ends):
            ((launcher, _),) = Counter(end.launcher for end in ends if end.file == file).most_common(1)
            lines = [end.line for end in ends if end.launcher == launcher]  # its log may be in several files
            survived = len(lines) - (not (went_on and file == ends[-1].file))
            cuts[file] = tuple(lines[: max(restarts, survived)][: MOST_ATTEMPTS - 1])
        return cls({file: lines for file, lines in cuts.items() if lines})

    @property
    def count(self) -> int:
        """How many attempts there are."""
        return 1 + max((len(lines) for lines in self.cuts.values()), default=0)

    def of_line(self, file: str, line: int) -> int:
        """The attempt that a line is of, from 0; the last one in a file that does not show it."""
        return bisect_left(self.cuts[file], line) if file in self.cuts else self.count - 1

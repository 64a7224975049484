"""Who has come to a meeting of ranks or nodes: written by the program that waits there, read by the command that shows it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ddpdoctor.model import group_ranks

VARIABLE = "DDPDOCTOR_ATTENDANCE"
EVERY_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingProcess:
    """One process waits for others."""

    number: int
    """Its rank, or the number of its node."""
    size: int
    """The number of ranks or nodes that should come, this one included."""
    where: str
    """`HOST:PORT` of the store where they meet."""
    speaks: bool
    """Whether it says so where no terminal shows it: it is number 0, or somebody started it by hand."""
    noun: str = "rank"
    """`rank` or `node`."""
    absent: tuple[int, ...] | None = None
    """Who has not come, as number 0 knows it; None where that is not known."""
    seconds: float = 0.0
    """Time passed since it began to wait."""


def note(present: Iterable[int] | None, *, complete: bool) -> None:
    """Write who is present (None: not known) and whether all are, where the command that started this program reads it."""
    path = os.environ.get(VARIABLE)
    if path is None:
        return
    unfinished = Path(f"{path}.unfinished")
    document = {"present": None if present is None else sorted(present), "complete": complete}
    unfinished.write_text(json.dumps(document), encoding="utf-8")
    unfinished.replace(path)


class Attendance:
    """Follows the file of `note`, and calls `on_wait` once a second until all have come."""

    def __init__(self, path: Path, waiting: WaitingProcess, on_wait: Callable[[WaitingProcess], None]) -> None:
        self._path = path
        self._waiting = waiting
        self._on_wait = on_wait
        self._began = time.monotonic()
        self._next = self._began + EVERY_SECONDS
        self._complete = False

    @property
    def lacking(self) -> str:
        """`ranks 1-2 of 4 did not come to HOST:PORT`; empty where all came, or where it is not known who did not."""
        if self._complete or not self._waiting.absent:
            return ""
        return f"{group_ranks(self._waiting.absent)} of {self._waiting.size} did not come to {self._waiting.where}"

    @property
    def environment(self) -> dict[str, str]:
        """What the program that meets the others is told."""
        return {VARIABLE: str(self._path)}

    def poll(self) -> None:
        """Look at the file, at most once a second."""
        now = time.monotonic()
        if self._complete or now < self._next:
            return
        self._next = now + EVERY_SECONDS
        present: list[int] | None = None
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            present, self._complete = document["present"], document["complete"]
        except (OSError, ValueError):
            pass  # it has not begun
        if not self._complete:
            absent = None if present is None else tuple(sorted({*range(self._waiting.size)} - {*present}))
            self._waiting = replace(self._waiting, absent=absent, seconds=now - self._began)
            self._on_wait(self._waiting)

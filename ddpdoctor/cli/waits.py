"""Says that this process waits for other ranks or nodes: for which ones, where, and for how long."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from ddpdoctor.cli import output
from ddpdoctor.model import group_ranks

if TYPE_CHECKING:
    from ddpdoctor.cli.progress import Progress
    from ddpdoctor.launch.attendance import WaitingProcess

QUIET_SECONDS = 3.0  # the ranks of a healthy launch are together by then
KNOWN_SECONDS = 15.0  # number 0 knows by then who is absent: torch is imported


class Waits:
    """Live where progress is shown on a terminal; elsewhere once, and once more when names are known.

    Said by rank 0 or by a process that somebody started by hand.
    """

    def __init__(self, display: Progress, deadline: float) -> None:
        self._display = display
        self._deadline = deadline
        self._said: set[bool] = set()  # without names, with names

    def note(self, waiting: WaitingProcess) -> None:
        """One second of waiting has passed. Nothing is said where everybody has come."""
        if waiting.absent == ():
            return
        noun = waiting.noun
        others = f"the other {noun}s"
        if waiting.absent is not None:
            others = group_ranks(waiting.absent).replace("rank", noun)
        words = (
            f"{noun} {waiting.number} of {waiting.size} on {socket.gethostname()} waits for {others} at {waiting.where}"
        )
        self._display.update(f"{words} ({waiting.seconds:.0f} of at most {self._deadline:.0f} s)")
        known = waiting.absent is not None or waiting.number != 0
        named = waiting.absent is not None
        if named in self._said or self._display.live or waiting.seconds < (QUIET_SECONDS if known else KNOWN_SECONDS):
            return
        self._said.add(named)
        if waiting.speaks:
            output.say(f"{words} for at most {self._deadline:.0f} s")

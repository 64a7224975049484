"""The line at the bottom of the terminal that shows how far a job under `watch` is, while it runs."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddpdoctor.cli import output
from ddpdoctor.quoting import quoted

if TYPE_CHECKING:
    from ddpdoctor.ranks.agent_files import RankProcess

EVERY_SECONDS = 1.0
PACE_SAMPLES = 20  # of one second each: the steps per second are those of the last 20 s
BEHIND_SHARE = (
    0.5  # of the samples in which a rank has begun fewer calls than its peers, before it is called the slowest
)
LEAST_ROWS, LEAST_COLUMNS = 6, 40
SAVE, RESTORE, CLEAR_LINE = "\x1b7", "\x1b8", "\x1b[2K"


@dataclass(slots=True)
class JobProgress:
    """How far the ranks of a job on this host are: sampled once a second."""

    ranks: int = 0
    """How many ranks have been seen at once."""
    steps: int = 0
    """Optimizer steps of the rank that has made fewest."""
    calls: int = 0
    """Recorded calls of torch.distributed that returned, of the rank with most."""
    quiet: float = 0.0
    """Seconds since the last sign of life."""
    _samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=PACE_SAMPLES))
    _behind: deque[int | None] = field(default_factory=lambda: deque(maxlen=PACE_SAMPLES))

    def observe(self, ranks: Sequence[RankProcess], quiet: float, now: float) -> bool:
        """Note how far `ranks` are; returns whether a second has passed since the last sample."""
        self.quiet = quiet
        if ranks:
            self.ranks = max(self.ranks, len(ranks))
            self.steps = min(agent.header.steps for agent in ranks)
            self.calls = max(self.calls, *(agent.header.returned for agent in ranks))
        if self._samples and now - self._samples[-1][0] < EVERY_SECONDS:
            return False
        self._samples.append((now, self.steps))
        begun = Counter({agent.rank: agent.header.written for agent in ranks})
        least = min(begun.values(), default=0)
        last = [rank for rank, number in begun.items() if number == least]
        self._behind.append(last[0] if len(last) == 1 and len(begun) > 1 else None)
        return True

    def steps_per_second(self) -> float | None:
        """Over the last samples; None before there are two of them."""
        if len(self._samples) < 2:
            return None
        (began, before), (ended, after) = self._samples[0], self._samples[-1]
        return max(0, after - before) / (ended - began) if ended > began else None

    def slowest(self) -> int | None:
        """The rank that was behind all others in most of the samples; None where there is no such rank."""
        rank, times = Counter(self._behind).most_common(1)[0] if self._behind else (None, 0)
        return rank if len(self._behind) >= 4 and times > BEHIND_SHARE * len(self._behind) else None

    def in_words(self) -> str:
        """`8 ranks · step 812 · 4.1 steps/s · slowest rank 3 · last progress 0.2 s ago`."""
        if not self.ranks:
            return "waiting for the ranks to call init_process_group"
        words = [f"{self.ranks} rank{'s' if self.ranks > 1 else ''}", f"step {self.steps}"]
        pace = self.steps_per_second()
        if pace:
            words.append(f"{pace:.3g} steps/s")
        slowest = self.slowest()
        if slowest is not None:
            words.append(f"slowest rank {slowest}")
        words.append(f"last progress {self.quiet:.0f} s ago")
        return " · ".join(words)


@contextlib.contextmanager
def status_line(*, shown: bool) -> Iterator[StatusLine]:
    """The last row of the terminal, kept out of what the job scrolls; given back at the end."""
    line = StatusLine(shown=shown and _usable())
    try:
        yield line
    finally:
        line.close()


@dataclass(slots=True)
class StatusLine:
    """One row below a scrolling region, as package managers have it: output of other programs cannot run into it."""

    shown: bool
    """False without a terminal that can have one, or once it is too small."""
    _size: os.terminal_size | None = None

    def update(self, text: str) -> None:
        """Show `text`, cut to the width of the terminal."""
        if not self.shown:
            return
        try:
            size = os.get_terminal_size(2)
        except OSError:
            self.shown = False
            return
        if size.lines < LEAST_ROWS or size.columns < LEAST_COLUMNS:
            return
        prepare = ""
        if size != self._size:
            # one row is freed by a line feed; then the region leaves it out, and the cursor returns to where it was
            prepare = f"\n{SAVE}\x1b[1;{size.lines - 1}r{RESTORE}\x1b[1A"
            self._size = size
        content = f" ddpdoctor  {quoted(text)}"[: size.columns - 1].ljust(size.columns - 1)
        self._write(f"{prepare}{SAVE}\x1b[{size.lines};1H{CLEAR_LINE}\x1b[7m{content}\x1b[0m{RESTORE}")

    def close(self) -> None:
        """Clear the row and give it back."""
        if self._size is not None:
            self._write(f"{SAVE}\x1b[r\x1b[{self._size.lines};1H{CLEAR_LINE}{RESTORE}")
            self._size = None

    def _write(self, text: str) -> None:
        output.raw(text)


def _usable() -> bool:
    """Whether stderr is a terminal that knows scrolling regions, and this process is in its foreground."""
    if not output.is_terminal(err=True) or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        return os.tcgetpgrp(2) == os.getpgrp()
    except OSError:
        return False


def seconds(since: float) -> str:
    """`42 s`, `12 min`, `3 h 20 min` since a moment of the monotonic clock."""
    passed = time.monotonic() - since
    if passed < 120:
        return f"{passed:.0f} s"
    minutes = round(passed / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"

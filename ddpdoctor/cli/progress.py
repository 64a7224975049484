"""What a command does and how far it is: live on a terminal, one line a stage in CI, nothing anywhere else."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ddpdoctor.cli import output
from ddpdoctor.quoting import quoted

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID

FALSE = {"", "0", "false", "no"}


class Progress:
    """On stderr, so that stdout holds nothing but the report."""

    def __init__(self, bar: Bar | None, *, lines: bool) -> None:
        self._bar = bar
        self._lines = lines
        self._task: TaskID | None = None

    @property
    def live(self) -> bool:
        """Whether a terminal shows each update."""
        return self._bar is not None

    def stage(self, text: str) -> None:
        """Begin what `text` says, such as `all_reduce over 2 ranks`."""
        if self._bar is not None:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._task = self._bar.add_task(quoted(text), total=None)
        elif self._lines:
            output.say(text)

    def update(self, text: str, *, done: float | None = None, total: float | None = None) -> None:
        """Say how far this stage is: in words, and as a share where `total` is known."""
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, description=quoted(text), completed=done, total=total)


@contextlib.contextmanager
def progress(first: str, *, shown: bool = True) -> Iterator[Progress]:
    """The progress of one command, which begins with the stage `first`; with `shown` False there is none."""
    terminal = shown and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    lines = shown and not terminal and os.environ.get("CI", "").lower() not in FALSE
    with _bar() if terminal else contextlib.nullcontext() as bar:
        display = Progress(bar, lines=lines)
        display.stage(first)
        yield display


def _bar() -> contextlib.AbstractContextManager[Bar]:
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as RichProgress

    from ddpdoctor.cli.terminal import colored
    from ddpdoctor.render.console import new_console

    class Known(BarColumn):
        """A bar where it is known how much there is to do."""

        def render(self, task):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202 - rich's signature
            return super().render(task) if task.total is not None else ""

    return RichProgress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        Known(bar_width=20),
        TimeElapsedColumn(),
        console=new_console(stderr=True, no_color=not colored(sys.stderr), highlight=False),
        transient=True,
    )

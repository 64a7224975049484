"""`ddpdoctor top [PID...]`: one row per rank of a running job, again and again."""

from __future__ import annotations

import contextlib
import io
import os
import re
import select
import socket
import sys
import termios
import time
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.errors import DdpdoctorError, UndecidedError, UsageError

if TYPE_CHECKING:
    from rich.console import RenderableType

    from ddpdoctor.evidence.rank_status import RankStatus
    from ddpdoctor.host.running_jobs import RunningJob
    from ddpdoctor.ranks.target import Target
    from ddpdoctor.workflows.rank_status import StatusReader

RESCAN_SECONDS = 20.0  # to look through /proc costs 0.1 s of a CPU
RATE_SECONDS = 1.0  # between the two samples of a single snapshot: a rate needs both
ABOVE_AND_BELOW = 4  # rows of the screen that are no ranks
WIDTH_OF_A_FILE = 160
KEY_NAMES = {b"A": "up", b"B": "down", b"\r": "enter", b"\n": "enter"}
KEYS = "q quit  s sort  up/down select  enter stack  c save a case"


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("top", short_help="Show every rank of a running job, live.")(top)


def top(
    pids: Annotated[
        Optional[list[int]],  # noqa: UP045 - a default of None on Python 3.10
        typer.Argument(
            metavar="[PID...]", help="Process of a rank or of the launcher; needed if several jobs run on this host."
        ),
    ] = None,
    case: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "--case", metavar="DIRECTORY", help="Show the ranks of all nodes whose `watch` has this shared directory."
        ),
    ] = None,
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.5, help="Time between two samples.")
    ] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Print one snapshot and end, as without a terminal.")] = False,
) -> None:
    """Show every rank of a running job: state, line, steps, lateness in collectives, CPU, memory, time since progress.

    The job is one under `watch`, or one that was started without ddpdoctor. Nothing in it is changed;
    the key that saves a case pauses each rank for a moment, as `hang` does.
    """
    if case is not None and not case.is_dir():
        raise UsageError(
            f"--case {case} is no directory", hint="give the directory that `ddpdoctor watch --case DIRECTORY` has"
        )
    view = _View(pids=pids or [], case=case, every=every)
    view.sample()
    if once or not sys.stdout.isatty() or not sys.stdin.isatty():
        time.sleep(RATE_SECONDS)
        view.sample()
        _print(view)
    else:
        with contextlib.closing(view):
            _live(view)


@dataclass(slots=True)
class _View:
    """What is shown: the ranks, and what the user chose."""

    pids: list[int]
    case: Path | None
    every: float
    statuses: tuple[RankStatus, ...] = ()
    sort: str = "rank"
    place: int = 0
    stack: bool = False
    message: str = ""
    _reader: StatusReader | None = None
    _job: RunningJob | None = None
    _next_scan: float = 0.0
    _asked: Path | None = None

    def sample(self) -> None:
        """Look at all ranks once.

        Raises:
            UsageError: several jobs run here and none was named.
            UndecidedError: there is no job here, and none of another node.
        """
        from ddpdoctor.workflows.rank_status import StatusReader
        from ddpdoctor.workflows.shared_status import read_statuses

        if self._reader is None:
            self._reader = StatusReader()
        if self.case is not None and not self.pids:
            self.statuses = read_statuses(self.case)
            self._look_for_answers()
            if not self.statuses:
                raise UndecidedError(
                    f"no `watch` writes to {self.case} now",
                    hint="give `ddpdoctor watch` this directory as --case on every node",
                )
            return
        elsewhere = read_statuses(self.case) if self.case is not None else ()
        ranks = {one.rank: one for one in (*elsewhere, *self._reader.sample(self._targets()))}
        self.statuses = tuple(ranks[rank] for rank in sorted(ranks))

    def _targets(self) -> tuple[Target, ...]:
        """The ranks on this host with counters as they are now; the job is looked for again every few seconds."""
        from ddpdoctor.cli.hang import chosen_job
        from ddpdoctor.host.running_jobs import find_jobs
        from ddpdoctor.ranks.agent_files import find_ranks
        from ddpdoctor.ranks.target import Target

        if self._job is None or time.monotonic() >= self._next_scan:
            known = self.pids if self._job is None else [pid for pid in self._job.pids if _runs(pid)]
            if self._job is not None and not known:
                raise UndecidedError("the job has ended")
            self._job = chosen_job(find_jobs(), known, command="top")
            self._next_scan = time.monotonic() + RESCAN_SECONDS
        folders = {target.agent.directory for target in self._job.targets if target.agent is not None}
        agents = {agent.pid: agent for folder in folders for agent in find_ranks(folder)}
        return tuple(
            Target(rank=target.rank, pid=target.pid, agent=agents.get(target.pid)) for target in self._job.targets
        )

    def key(self, key: str) -> None:
        """Do what a key asks for."""
        from ddpdoctor.render.rank_table import SORTS

        match key:
            case "s":
                self.sort = SORTS[(SORTS.index(self.sort) + 1) % len(SORTS)]
            case "up" | "k":
                self.place = max(0, self.place - 1)
            case "down" | "j":
                self.place = min(max(0, len(self.statuses) - 1), self.place + 1)
            case "enter":
                self.stack = not self.stack
            case "c":
                self._save()

    def _save(self) -> None:
        """Save a case of the job as it is now, on the other nodes through their `watch`; `diagnose` reads it."""
        from ddpdoctor import case
        from ddpdoctor.cli.hang import chosen_job
        from ddpdoctor.host.running_jobs import find_jobs
        from ddpdoctor.workflows.hang import look
        from ddpdoctor.workflows.shared_case import ask_for_case

        if self.case is not None and not self.pids:
            try:
                self._asked = ask_for_case(self.case)
            except DdpdoctorError as error:
                self.message = error.message
            else:
                self.message = f"asked the `watch` of every node for a case: {self._asked}"
            return
        here = [one.pid for one in self.statuses if one.host == socket.gethostname() and _runs(one.pid)]
        if not here:
            self.message = "no rank of this job runs on this host any more: nothing was saved"
            return
        path = Path(f"ddpdoctor-{time.strftime('%H%M%S')}.json")
        try:
            case.save(look(chosen_job(find_jobs(), here[:1], command="top")), path)
        except DdpdoctorError as error:
            self.message = error.message
        else:
            self.message = f"saved {path}: `ddpdoctor diagnose {path}` judges it"

    def _look_for_answers(self) -> None:
        """Tell how many nodes have saved the case that was asked for."""
        from ddpdoctor.analysis.hangs.ranks_to_look_at import SILENT
        from ddpdoctor.workflows.shared_case import answers, withdraw

        if self._asked is None:
            return
        came, nodes = answers(self._asked), len({one.host for one in self.statuses if one.state != SILENT})
        if came:
            self.message = f"saved by {came} of {nodes} nodes: `ddpdoctor diagnose {self._asked}` judges it"
        if came >= nodes:
            withdraw(self._asked)
            self._asked = None

    def close(self) -> None:
        """Leave no request behind."""
        from ddpdoctor.workflows.shared_case import withdraw

        if self._asked is not None:
            withdraw(self._asked)

    def shown(self, width: int, height: int | None) -> RenderableType:
        """The table, cut to the rows of the screen around the selected rank, and below it what else was asked for."""
        from rich.console import Group
        from rich.text import Text

        from ddpdoctor.analysis.hangs.ranks_to_look_at import ranks_to_look_at
        from ddpdoctor.quoting import quoted
        from ddpdoctor.render.rank_table import in_order, table

        marked = ranks_to_look_at(self.statuses)
        ordered = in_order(self.statuses, self.sort)
        self.place = min(self.place, max(0, len(ordered) - 1))
        chosen = ordered[self.place] if ordered and height is not None else None
        below = [f"  {frame}" for frame in self._stack_of(chosen)] if self.stack and chosen is not None else []
        rows = len(ordered) if height is None else max(1, height - ABOVE_AND_BELOW - len(below))
        first = max(0, min(self.place - rows // 2, len(ordered) - rows))
        title = f"ddpdoctor top  {len(ordered)} ranks"
        if marked:
            title += f"  look at {', '.join(map(str, sorted(marked)[:8]))}"
        if height is not None:
            title += f"  sorted by {self.sort}  {time.strftime('%H:%M:%S')}"
        if len(ordered) > rows:
            title += f"  ({first + 1}-{first + rows})"
        selected = chosen.rank if chosen is not None else None
        parts: list[RenderableType] = [
            Text(title[:width], style="bold"),
            table(ordered[first : first + rows], marked, width=width, selected=selected),
            *(Text(quoted(line)[:width]) for line in below),
        ]
        if height is not None:
            parts.append(Text((self.message or KEYS)[: 2 * width], style="dim"))
        return Group(*parts)

    def _stack_of(self, chosen: RankStatus) -> list[str]:
        from ddpdoctor.ranks.target import Target
        from ddpdoctor.workflows.rank_status import frames_in_words, main_stacks

        if chosen.host != socket.gethostname():
            return [*chosen.stack] or [
                f"rank {chosen.rank} runs on {chosen.host}: run `ddpdoctor top` there to see its stack"
            ]
        target = Target(rank=chosen.rank, pid=chosen.pid)
        frames = main_stacks([target])[target]
        return [f"the stack of rank {chosen.rank} cannot be read"] if frames is None else [*frames_in_words(frames)]


def _runs(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _print(view: _View) -> None:
    """One snapshot: every rank, without cutting lines where stdout is no terminal."""
    from ddpdoctor.render.console import new_console

    width = os.get_terminal_size().columns if output.is_terminal() else WIDTH_OF_A_FILE
    drawn = io.StringIO()
    new_console(file=drawn, width=width, highlight=False, color_system=None).print(view.shown(width, None))
    output.show("".join(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines()))


def _live(view: _View) -> None:
    from rich.live import Live

    from ddpdoctor.render.console import new_console

    console = new_console(highlight=False)
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        sampled = time.monotonic()
        while True:
            live.update(view.shown(console.width, console.height), refresh=True)
            key = keys.next(max(0.0, sampled + view.every - time.monotonic()))
            if key == "q":
                return
            if key is not None:
                view.message = ""
                view.key(key)
            if time.monotonic() >= sampled + view.every:
                try:
                    view.sample()
                except DdpdoctorError as error:
                    ended = error.message
                    break
                sampled = time.monotonic()
    output.say(ended)


class _Keys:
    """The keys that are pressed, one at a time."""

    def __init__(self) -> None:
        self._pressed: list[bytes] = []

    def next(self, seconds: float) -> str | None:
        """The next key within `seconds`: a letter, `up`, `down` or `enter`; None where none came, `q` at the end of input."""
        if not self._pressed:
            ready, _, _ = select.select([sys.stdin.fileno()], [], [], seconds)
            if not ready:
                return None
            data = os.read(sys.stdin.fileno(), 256)
            if not data:
                return "q"
            self._pressed = re.findall(rb"\x1b[\[O][A-D]|.", data, flags=re.DOTALL)
        key = self._pressed.pop(0)
        return KEY_NAMES.get(key[-1:] if key.startswith(b"\x1b") else key, key.decode("ascii", "replace"))


@contextmanager
def _keys() -> Iterator[_Keys]:
    """The terminal in a mode that hands out every key at once; as it was afterwards."""
    before = termios.tcgetattr(sys.stdin)
    try:
        tty.setcbreak(sys.stdin)
        yield _Keys()
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)

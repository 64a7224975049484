"""What the terminal of this process is: its colours, its width, and what stands above a verdict on it."""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path
from typing import TextIO

from ddpdoctor.render.screen import Screen
from ddpdoctor.render.text import Heading

UNDER_WATCH = "`ddpdoctor watch -- {command}` names the rank that raised an error or keeps others waiting"
NEXT_STEPS = {
    "watch": "while it hangs, `ddpdoctor hang` shows the stacks of its ranks; `ddpdoctor watch --case DIR -- COMMAND` "
    "keeps the evidence for a ticket",
    "hang": "run the job under `ddpdoctor watch -- COMMAND`, which records what each rank called",
    "diagnose": "start the job under `ddpdoctor watch --case DIR -- COMMAND`, and give DIR to `ddpdoctor diagnose`",
    "env": "run `ddpdoctor net` with the same launcher: it finds the address, port or link that keeps ranks apart",
    "net": "check that it was started on every node, with the same --nnodes and --master-addr",
    "verify-sync": UNDER_WATCH,
    "allreduce-bench": "run `ddpdoctor net`, which finds the link or address that does not work",
    "train": UNDER_WATCH,
    "smoke": "run the undecided stage by itself: `ddpdoctor env`, `allreduce-bench`, `verify-sync` or `train`",
}


def screen(stream: TextIO | None = None) -> Screen:
    """How `stream` (stdout unless given) shows text: wrapped to its width where it is a terminal, else not wrapped."""
    stream = stream or sys.stdout
    terminal = stream.isatty()
    return Screen(
        color=colored(stream),
        width=_columns(stream) if terminal else None,
        unicode=_draws_lines(stream),
        directory=_directory(),
    )


def colored(stream: TextIO) -> bool:
    """Whether to colour: never with `NO_COLOR`, always with `FORCE_COLOR`, otherwise on a terminal that is not dumb."""
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (stream.isatty() and os.environ.get("TERM") != "dumb")


def heading(command: str, subject: str = "") -> Heading:
    """What stands above the verdict of `command` (`watch`), now; `subject` is the command line, or what was examined."""
    return Heading(
        command=f"ddpdoctor {command}",
        clock=time.strftime("%H:%M:%S"),
        subject=subject,
        next_step=NEXT_STEPS.get(command, "").format(command=subject),
    )


def _columns(stream: TextIO) -> int:
    if os.environ.get("COLUMNS", "").isdigit():
        return shutil.get_terminal_size().columns
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except OSError:
        return 80


def _draws_lines(stream: TextIO) -> bool:
    try:
        "━·".encode(stream.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


def _directory() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""

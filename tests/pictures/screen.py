"""A terminal of a given size (tmux), what it shows with its colours, and a picture of that."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

SOCKET = f"ddpdoctor-pictures-{os.getpid()}"
DARK = "#484f58 #ff7b72 #3fb950 #d29922 #58a6ff #bc8cff #39c5cf #b1bac4"
LIGHT = "#6e7681 #ffa198 #56d364 #e3b341 #79c0ff #d2a8ff #56d4dd #ffffff"


def _colours(listed: str) -> list[tuple[int, int, int]]:
    return [(number >> 16, number >> 8 & 255, number & 255) for number in (int(one[1:], 16) for one in listed.split())]


PAPER = TerminalTheme((22, 27, 34), (230, 237, 243), _colours(DARK), _colours(LIGHT))
# rich's own picture asks another host for its font; this one asks nobody
SVG = """<svg class="{unique_id}" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; font-size: {char_height}px; \
line-height: {line_height}px; white-space: pre }}
.{unique_id}-title {{ font: bold 18px sans-serif }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def tmux(*arguments: str) -> str:
    """What tmux answers."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # tmux takes that of its client
    environment = {**os.environ, "PATH": path}
    command = ["tmux", "-L", SOCKET, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


class Screen:
    """One terminal in which a command runs."""

    def __init__(self, command: str, folder: Path, *, columns: int, rows: int) -> None:
        tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(rows), "-c", str(folder),
             "-e", "COLORTERM=truecolor", "-e", "OMP_NUM_THREADS=1",
             f"sh -c {_quoted(command)}; tmux -L {SOCKET} wait-for -S ended; sleep 1000")  # fmt: skip

    def wait(self, seconds: float) -> None:
        """Wait for the end of the command, at most so long."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(["tmux", "-L", SOCKET, "wait-for", "ended"], timeout=seconds, check=True)

    def shown(self) -> str:
        """The lines with their colours, without empty ones at the end."""
        return "\n".join(tmux("capture-pane", "-e", "-p").rstrip().splitlines())

    def press(self, key: str) -> None:
        """Press one key, and wait until it is drawn."""
        tmux("send-keys", key)
        time.sleep(1.0)


@contextlib.contextmanager
def screen(command: str, folder: Path, *, columns: int, rows: int = 50) -> Iterator[Screen]:
    """A terminal with `command` in it; it ends with the context."""
    opened = Screen(command, folder, columns=columns, rows=rows)
    try:
        yield opened
    finally:
        tmux("kill-server")


def picture(shown: str, title: str, columns: int) -> str:
    """An SVG of what a terminal shows."""
    console = Console(width=columns, record=True, file=io.StringIO(), force_terminal=True, legacy_windows=False)
    console.print(Text.from_ansi(shown), soft_wrap=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in title)
    return console.export_svg(title=f"$ {title}", theme=PAPER, code_format=SVG, unique_id=f"t-{name}"[:40])


def _quoted(command: str) -> str:
    return "'" + command.replace("'", "'\\''") + "'"

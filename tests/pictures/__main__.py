"""Makes the pictures of terminals in docs/pictures, and lists their sizes: `python -m tests.pictures [NAME...]`.

Needs tmux and torch. Every picture shows what the program printed in that run, in a terminal of 80 or 100 columns.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from ddpdoctor.case import CASE_FILE
from tests.pictures.jobs import FILES
from tests.pictures.screen import picture, screen

PICTURES = Path(__file__).parents[2] / "docs" / "pictures"
LONGEST_SECONDS = 240.0
COLUMNS = {"top": 80}  # the others have 100
VERDICT = {"watch": "━━ ddpdoctor watch"}  # what the launcher prints above it is left out
COMMANDS = {
    "watch": "ddpdoctor watch --stall-after 5 --kill-on-hang -- torchrun --nproc-per-node 4 train.py",
    "diagnose": "ddpdoctor diagnose slurm-4711.out",
    "explain": "ddpdoctor explain hangs in the first step",
    "lint": "ddpdoctor lint job.sbatch",
    "env": "ddpdoctor env",
    "smoke": "ddpdoctor smoke --nproc 2",
    "allreduce-bench": "ddpdoctor allreduce-bench --nproc 2 --sizes 64K..4M --time-budget 6",
    "verify-sync": "ddpdoctor verify-sync --nproc 2 --every 1 ema.py",
}


def ended(name: str, folder: Path) -> str:
    """What a command leaves on the screen when it has ended."""
    with screen(f"export FORCE_COLOR=1; {COMMANDS[name]}", folder, columns=100) as terminal:
        terminal.wait(LONGEST_SECONDS)
        lines = terminal.shown().splitlines()
        first = [place for place, line in enumerate(lines) if VERDICT.get(name, "\0") in line]
        return "\n".join(lines[first[-1] :] if first else lines)


def top(folder: Path) -> str:
    """`top` beside a job that hangs."""
    return beside_hang(folder, "ddpdoctor top", 80, 24)


def hang(folder: Path) -> str:
    """`hang` beside the same job."""
    return beside_hang(folder, "ddpdoctor hang", 100, 50)


def beside_hang(folder: Path, command: str, columns: int, rows: int) -> str:
    """What `command` shows of a job whose ranks wait for each other."""
    watch = "watch --case case --stall-after 5 -- torchrun --nproc-per-node 4 hangs.py"
    program = str(Path(sys.executable).parent / "ddpdoctor")
    job = subprocess.Popen([program, *watch.split()], cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 120
        while time.monotonic() < until and not (folder / "case" / CASE_FILE).exists():  # written with the first verdict
            time.sleep(1)
        with screen(f"{command} {job.pid}", folder, columns=columns, rows=rows) as terminal:
            terminal.wait(12 if command.startswith("ddpdoctor top") else 60)
            return terminal.shown()
    finally:
        job.send_signal(signal.SIGINT)
        job.wait(60)


OTHERS: dict[str, Callable[[Path], str]] = {"top": top, "hang": hang}


def main(names: list[str]) -> None:
    """Make the pictures with these names, or all."""
    for name in names or [*COMMANDS, *OTHERS]:
        with tempfile.TemporaryDirectory() as made:
            folder = Path(made)
            for file, text in FILES.items():
                (folder / file).write_text(text)
            shown = OTHERS[name](folder) if name in OTHERS else ended(name, folder)
        title = COMMANDS.get(name, f"ddpdoctor {name}")
        svg = picture(shown, title, COLUMNS.get(name, 100))
        file = PICTURES / f"terminal-{name}.svg"
        file.write_text(svg)
        print(f"{file.name}  {len(svg) / 1000:.0f} kB  {len(shown.splitlines())} lines")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Where the main threads of running processes are, at many moments of a few seconds: py-spy's samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.launch.guarded_process import run_each
from ddpdoctor.ranks.stacks import number_of_main_thread, py_spy_program

SAMPLE_SECONDS = 2
SAMPLES_PER_SECOND = 20  # each pauses the process for a millisecond
START_SECONDS = 20.0  # of py-spy: 0.1, on a machine with ten times the load ten
MOST_STACKS = 10_000  # lines of py-spy's output that are read of each process
_SAMPLES = re.compile(r"thread \((?P<thread>[0-9]{1,9})\)[^;]*;(?P<stack>.*) (?P<times>[0-9]{1,9})")
_FRAME = re.compile(r"(?P<function>.*?) \((?P<file>.*):(?P<line>[0-9]{1,9})\)")

Samples: TypeAlias = Counter[tuple[Frame, ...]]
"""Stacks, innermost frame first, and at how many moments each was found."""


def samples_of(pids: Sequence[int]) -> tuple[Samples, ...]:
    """The stacks of the main thread of each process, sampled at the same time; empty for one that cannot be read."""
    program = py_spy_program()
    if program is None:
        return tuple(Counter() for _ in pids)
    how = ["--format", "raw", "--idle", "--threads", "--full-filenames", "--output", "/dev/stdout"]
    length = ["--duration", str(SAMPLE_SECONDS), "--rate", str(SAMPLES_PER_SECOND)]
    commands = [[program, "record", *how, *length, "--pid", str(pid)] for pid in pids]
    ends = run_each(commands, deadline_seconds=SAMPLE_SECONDS + START_SECONDS)
    return tuple(_of_main(ended.stdout, number_of_main_thread(pid)) for pid, ended in zip(pids, ends, strict=True))


def _of_main(text: str, main: int) -> Samples:
    found: Samples = Counter()
    for line in text.splitlines()[:MOST_STACKS]:
        match = _SAMPLES.fullmatch(line)
        if match is None or int(match["thread"]) != main:
            continue
        frames = [_FRAME.fullmatch(part) for part in match["stack"].split(";")[::-1]]
        found[tuple(_frame(frame) for frame in frames if frame is not None)] += int(match["times"])
    return found


def _frame(match: re.Match[str]) -> Frame:
    return Frame(file=match["file"], line=int(match["line"]), function=match["function"].rpartition(".")[2])

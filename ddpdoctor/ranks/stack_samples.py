"""Where the main threads of running processes are, at many moments of a few seconds: py-spy's samples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.launch.guarded_process import run_each
from ddpdoctor.ranks.stacks import number_of_main_thread, py_spy_program
from ddpdoctor.whole_numbers import whole_number

SAMPLE_SECONDS = 2
SAMPLES_PER_SECOND = 20  # each pauses the process for a millisecond
START_SECONDS = 20.0  # of py-spy: 0.1, on a machine with ten times the load ten
MOST_STACKS = 10_000  # lines of py-spy's output that are read of each process
_THREAD = re.compile(r"thread \(([0-9]{1,9})\)")

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
    """The samples of a thread in py-spy's raw format: `thread (12): "MainThread";main (train.py:9);step (train.py:4) 31`."""
    found: Samples = Counter()
    for line in text.splitlines()[:MOST_STACKS]:
        thread, _, rest = line.partition(";")
        stack, _, number = rest.rpartition(" ")
        named, times = _THREAD.match(thread), whole_number(number)
        if named is not None and int(named[1]) == main and times is not None:
            frames = map(_frame, stack.split(";")[::-1])
            found[tuple(frame for frame in frames if frame is not None)] += times
    return found


def _frame(text: str) -> Frame | None:
    place, _, number = text.rpartition(":")
    function, _, file = place.partition(" (")
    line = whole_number(number.removesuffix(")"))
    return Frame(file=file, line=line, function=function.rpartition(".")[2]) if file and line is not None else None

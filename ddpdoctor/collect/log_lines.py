"""Lines of job logs without what launchers put before them, and the rank that each is of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_LINE_BYTES = 1 << 16
SAMPLED_LINES = 200

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_TIME = re.compile(
    r"^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?(?: (?:stdout|stderr) [FP])? ?"
)
_TEE = re.compile(r"^\[(?!rank)[A-Za-z_.-]+?(\d+)\]: ?")
_RAY = re.compile(r"^\(\w+ pid=\d+(?:, ip=[\w.:]+)?\) ")
# `node03: `, `worker-1  | `, `[pod/train-0/pytorch] `: who collected the lines
_LABEL = re.compile(r"^(?:\[[\w./-]{1,80}\]|[\w./-]{1,80}(?:: ?| *\|))\s*(?=\[rank\d+\]:)")
_RANK = re.compile(r"^\[rank(\d+)\]: ?")
# what C++ writes may stand behind a progress bar's unfinished line
_RANK_OF_CPP = re.compile(r"\[rank(\d+)\]:(?=\[[EFIW]\d* )")
_RANK_OF_WATCHDOG = re.compile(r"(?=\[[EF] ProcessGroupNCCL\.cpp:\d+\] \[Rank (\d+)\])")  # until torch 2.1
_MPI = re.compile(r"^\[\d+,(\d+)\]<std(?:out|err)>: ?")
_SLURM = re.compile(r"^ *(\d+): ?")
_PATH_OF_TORCHRUN = re.compile(r"attempt_(\d+)/(\d+)/std(?:out|err)\.log$")
_PATH_OF_RANK = re.compile(r"(?:^|[^a-z])rank[_\-.]?(\d+)(?!\d)", re.IGNORECASE)
_PATH_OF_SLURM = re.compile(r"slurm-\d+[_.-](\d+)\.(?:out|err|log)$")


@dataclass(frozen=True, slots=True)
class Line:
    """One line as its rank wrote it. `rank` is None where neither the line nor the file's name tells.

    `marked` where torch itself put the rank before it, as it does with the traceback that ends a rank.
    """

    rank: int | None
    text: str
    marked: bool = False


def lines_of(path: Path) -> Iterator[Line]:
    """The lines of the log at `path`, one at a time: the file may be larger than memory, and hold any bytes."""
    by_name = rank_of_log(path)
    labelled = _is_labelled(path)
    with path.open("rb") as stream:
        for raw in iter(lambda: stream.readline(MAX_LINE_BYTES), b""):
            yield _line(raw, by_name, labelled=labelled)


def rank_of_log(path: Path) -> int | None:
    """The rank that a log's name tells: torchrun's `attempt_0/3/stderr.log`, `rank_3.log`, Slurm's `slurm-4242_3.out`."""
    name = path.as_posix()
    if found := _PATH_OF_TORCHRUN.search(name):
        return int(found[2])
    found = (
        _PATH_OF_RANK.search(path.name) or _PATH_OF_SLURM.search(path.name) or _PATH_OF_RANK.search(path.parent.name)
    )
    return int(found[1]) if found else None


def _line(raw: bytes, by_name: int | None, *, labelled: bool) -> Line:
    text = _ANSI.sub("", raw.decode("utf-8", "replace")).rstrip("\r\n")
    text = text.rpartition("\r")[2]  # a progress bar writes over itself: its last state is what a person sees
    rank = by_name
    if labelled and (found := _SLURM.match(text)):
        rank, text = int(found[1]), text[found.end() :]
    text = _TIME.sub("", text, count=1)
    for pattern in (_MPI, _TEE):
        if found := pattern.match(text):
            rank, text = int(found[1]) if rank is None else rank, text[found.end() :]
    text = _LABEL.sub("", _RAY.sub("", text, count=1), count=1)
    if found := _RANK.match(text) or _RANK_OF_CPP.search(text):
        return Line(int(found[1]), text[found.end() :], marked=True)
    if rank is None and (found := _RANK_OF_WATCHDOG.search(text)):
        rank, text = int(found[1]), text[found.start() :]
    return Line(rank, text)


def _is_labelled(path: Path) -> bool:
    """Whether `srun --label` put the task's number before every line."""
    with path.open("rb") as stream:
        sample = [stream.readline(MAX_LINE_BYTES) for _ in range(SAMPLED_LINES)]
    filled = [line.decode("utf-8", "replace") for line in sample if line.strip()]
    return bool(filled) and all(map(_SLURM.match, filled))

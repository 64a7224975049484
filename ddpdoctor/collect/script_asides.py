"""What became of a followed script, beside what its ranks' replicas show: how it ended, and what could not be written down."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from ddpdoctor.model import group_ranks

STALLED = "stalled"  # a file beside the journals of a rank whose script was ended for its silence
LEAST_FREE_BYTES = 1 << 14  # an entry of a small model's step has some kilobytes


def how_it_ended(script: Path, code: int) -> tuple[str, ...]:
    """A note where the script failed: what is judged is what it did before."""
    if code == 0:
        return ()
    judged = f"{script.name} ended with exit code {code}; judged is what its ranks did before"
    return (f"{judged}, and `ddpdoctor watch -- torchrun ... {script.name}` says why it ended",)


def stood_still(script: Path, directory: Path, stall_after: float) -> tuple[str, ...]:
    """That the script was ended for its silence, here or on the other ranks whose files came with theirs (`3-stalled`)."""
    names = [file.name for file in directory.glob(f"*{STALLED}")]
    if not names:
        return ()
    others = sorted(int(name.partition("-")[0]) for name in names if name != STALLED)
    whose = script.name if STALLED in names else f"{script.name} on {group_ranks(others)}"
    said = f"{whose} wrote nothing for {stall_after:g} s and was ended"
    return (f"{said}: `ddpdoctor watch -- torchrun ... {script.name}` says which rank keeps it waiting",)


def not_written(directory: Path, place: Path) -> tuple[str, ...]:
    """Why nothing can be said of the rest of the job, where the disk of `directory`, a folder in `place`, is full."""
    free = os.statvfs(directory)
    if free.f_bavail * free.f_frsize >= LEAST_FREE_BYTES:
        return ()
    full = f"{place} is full, so the ranks could not write down all that they saw"
    return (f"{full}: free some space there, or set XDG_RUNTIME_DIR or TMPDIR to a directory that has some",)


def wrapped_twice(directory: Path) -> tuple[str, ...]:
    """A note for each line that put a model under DistributedDataParallel a second time, where both wrappers are called."""
    lines = {line for file in directory.glob("*.sync.jsonl") for line in _second_wraps(file)}
    return tuple(
        f"{where} puts a model under DistributedDataParallel that is under it already: each backward reduces twice"
        for where in sorted(lines)
    )


def _second_wraps(file: Path) -> Iterator[str]:
    for line in file.read_bytes().splitlines():
        if b'"wrapped-twice"' in line:
            with contextlib.suppress(ValueError, KeyError, TypeError):
                place = json.loads(line)["line"]
                yield f"{place[0]}:{place[1]} in {place[2]}"

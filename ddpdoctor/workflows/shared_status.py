"""How ranks on other nodes are getting on: every `watch` with a shared `--case` directory writes its own, `top` reads all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from ddpdoctor.case import write_atomically
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence.rank_status import RankStatus

PATTERN = ".node-with-rank-*.status"
DEAD_SECONDS = 300.0  # by our own clock, which may be that much off: then no `watch` runs at all
FRESH_SECONDS = 30.0  # older than the newest one, by the clock of the file system: that node's `watch` has ended


def write_statuses(directory: Path, statuses: Sequence[RankStatus]) -> None:
    """Write the ranks of this node to `directory`; a place that cannot be written to costs the view and nothing else."""
    if statuses:
        name = PATTERN.replace("*", str(min(one.rank for one in statuses)))
        with contextlib.suppress(DdpdoctorError):
            write_atomically(directory / name, msgspec.json.encode(list(statuses)))


def remove_statuses(directory: Path, statuses: Sequence[RankStatus]) -> None:
    """Take away what `write_statuses` wrote."""
    if statuses:
        with contextlib.suppress(OSError):
            (directory / PATTERN.replace("*", str(min(one.rank for one in statuses)))).unlink(missing_ok=True)


def read_statuses(directory: Path) -> tuple[RankStatus, ...]:
    """The ranks of all nodes whose `watch` wrote lately, in order of rank."""
    found: list[tuple[float, list[RankStatus]]] = []
    for file in directory.glob(PATTERN):
        with contextlib.suppress(OSError, msgspec.DecodeError):
            found.append((file.stat().st_mtime, msgspec.json.decode(file.read_bytes(), type=list[RankStatus])))
    newest = max((at for at, _ in found), default=0.0)
    if newest < time.time() - DEAD_SECONDS:
        return ()
    ranks = {one.rank: one for at, each in found if at > newest - FRESH_SECONDS for one in each}
    return tuple(ranks[rank] for rank in sorted(ranks))

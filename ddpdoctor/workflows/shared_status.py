"""How ranks on other nodes are getting on: every `watch` with a shared `--case` directory writes its own, `top` reads all."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from ddpdoctor.analysis.hangs.ranks_to_look_at import SILENT
from ddpdoctor.atomic_file import write_atomically
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence.rank_status import RankStatus
from ddpdoctor.host.owned_files import read_owned
from ddpdoctor.json_errors import JSON_ERRORS

PATTERN = ".node-with-rank-*.status"
MOST_BYTES = 64 << 20  # of one node's rows
DEAD_SECONDS = 300.0  # by our own clock, which may be that much off: then no `watch` runs at all
FRESH_SECONDS = 30.0  # older than the newest one, by the clock of the file system: that node says nothing any more


@dataclass(slots=True)
class SharedRows:
    """The rows of this node's ranks, in one file that this object owns."""

    directory: Path
    """The folder in which nodes meet."""
    _file: Path | None = None

    def write(self, statuses: Sequence[RankStatus]) -> None:
        """Write the ranks of this node; a place that cannot be written to costs the view and nothing else."""
        if not statuses:
            return
        file = self.directory / PATTERN.replace("*", str(min(status.rank for status in statuses)))
        if file != self._file:  # the lowest rank came last, or an elastic job has numbered its ranks anew
            self.remove()
        with contextlib.suppress(DdpdoctorError):
            write_atomically(file, msgspec.json.encode(list(statuses)), private=True)
            self._file = file

    def remove(self) -> None:
        """Take away what was written."""
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
            self._file = None


def read_statuses(directory: Path) -> tuple[RankStatus, ...]:
    """The ranks of all nodes whose `watch` wrote lately, in order of rank.

    The state of ranks whose node has stopped writing while others went on is `SILENT`; after some minutes they are left out.
    """
    found: list[tuple[float, list[RankStatus]]] = []
    for file in directory.glob(PATTERN):
        with contextlib.suppress(OSError, *JSON_ERRORS):
            found.append(
                (
                    file.stat().st_mtime,
                    msgspec.json.decode(read_owned(file, None, most=MOST_BYTES), type=list[RankStatus]),
                )
            )
    newest = max((at for at, _ in found), default=0.0)
    if newest < time.time() - DEAD_SECONDS:
        return ()
    ranks: dict[int, RankStatus] = {}
    for at, each in sorted(found, key=lambda one: one[0]):
        if at > newest - DEAD_SECONDS:
            fresh = at > newest - FRESH_SECONDS
            ranks |= {one.rank: one if fresh else replace(one, state=SILENT, waits_for_peers=False) for one in each}
    return tuple(ranks[rank] for rank in sorted(ranks))

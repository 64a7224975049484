"""The other nodes of a job: each one's `watch` writes a case into a shared directory, and that of rank 0 reports for all."""

from __future__ import annotations

import contextlib
import enum
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from ddpdoctor import case
from ddpdoctor.errors import DdpdoctorError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.launch import Launch
from ddpdoctor.evidence.merge import join
from ddpdoctor.host import processes
from ddpdoctor.model import group_ranks
from ddpdoctor.ranks.agent_files import RankProcess

ENDED = "ended"  # in the meta of a case: the exit code of the node's command, empty while it runs
BEAT_SECONDS = 5.0
ALIVE_SECONDS = 30.0  # six beats
ANSWER_SECONDS = 20.0  # two beats, and a look in between
PATIENCE_SECONDS = 10.0  # all nodes see the stall at the same moment, and a snapshot takes one to three seconds
POLL_SECONDS = 0.2
CLOCK_SECONDS = 2.0  # how coarse the times of a file system may be

Version: TypeAlias = tuple[int, int, int]  # inode, time of modification in nanoseconds, and size of a file


class WrittenCase(enum.Enum):
    """What this node has last written into the directory."""

    NONE = enum.auto()
    STALL = enum.auto()
    """The case of a stall that may still end."""
    END = enum.auto()
    """The case of a command that has ended."""


@dataclass(slots=True)
class OtherNodes:
    """The part of this node's `watch` in a job over several nodes.

    A hidden file in the directory, touched while a node's `watch` runs, shows the others that it takes part. All times are
    compared on the clock of that file system, as hosts have clocks of their own.
    """

    directory: Path | None = None
    """Where every node writes its case; None where none was asked for."""
    reports: bool = True
    """False while the node of rank 0 reports for this one."""
    _written: WrittenCase = WrittenCase.NONE
    _lowest: int | None = None  # of this node's ranks; None while unknown, and where all ranks of the job are here
    _world_size: int = 0
    _pids: tuple[int, ...] = ()
    _joined_at: float = 0.0
    _seen: set[int] = field(default_factory=set)
    _next_beat: float = 0.0
    _next_visit: float = 0.0
    _read: dict[int, tuple[Version, Evidence]] = field(
        default_factory=dict
    )  # cases of other nodes, by their lowest rank

    @property
    def wrote(self) -> bool:
        """Whether a case of this node is in the directory."""
        return self._written is not WrittenCase.NONE

    @property
    def has_others(self) -> bool:
        """Whether some ranks of the job run on other nodes, as far as is known."""
        return self._lowest is not None

    def beat(self, ranks: Sequence[RankProcess]) -> None:
        """Show that this node takes part, once its ranks are known, where the job has others."""
        if not ranks or time.monotonic() < self._next_beat:
            return
        self._next_beat = time.monotonic() + BEAT_SECONDS
        self._take_place(ranks)
        if self._lowest is None or self.directory is None:
            return
        sign = self._sign(self._lowest)
        with contextlib.suppress(OSError):
            sign.parent.mkdir(parents=True, exist_ok=True)
            sign.touch()
            self._joined_at = self._joined_at or sign.stat().st_mtime - CLOCK_SECONDS
            self._seen |= self._alive(None if self._lowest == 0 else (0,))
            self.reports = self._lowest == 0 or 0 not in self._seen

    def _take_place(self, ranks: Sequence[RankProcess]) -> None:
        """Know which part of the job runs here; an elastic job that goes on with other nodes is numbered anew."""
        pids = tuple(agent.pid for agent in ranks)
        if self._lowest is not None and pids == self._pids:
            return
        part = _part(ranks)
        if part is None and self._lowest is None:
            return
        before, self._pids = self._lowest, pids
        self._lowest, self._world_size = part or (ranks[0].rank, len(ranks))  # no part: now all of the job is here
        self._seen.clear()
        if before not in {None, self._lowest} and self.directory is not None:
            with contextlib.suppress(OSError):
                self._sign(before).unlink(missing_ok=True)
                self._case(before).unlink(missing_ok=True)

    def on_stall(self, evidence: Evidence, quiet: float) -> Evidence:
        """Write this node's case of a stall that has lasted for `quiet` seconds; on the node of rank 0, add the others'."""
        written_at = self._write(evidence, "", WrittenCase.STALL)
        if written_at is None or self._lowest != 0:
            return self._joined(evidence, ())
        return self._joined(evidence, self._others(written_at - quiet - CLOCK_SECONDS, ended=False))

    def clear_stall(self) -> None:
        """Remove this node's case of a stall that is over, so that nobody judges a later one by it."""
        self._read.clear()
        if self._written is WrittenCase.STALL and self._lowest is not None:
            self._written = WrittenCase.NONE
            with contextlib.suppress(OSError):
                self._case(self._lowest).unlink(missing_ok=True)

    def on_exit(self, evidence: Evidence, code: int, ended_by_us: Evidence | None) -> Evidence:
        """Write this node's case once its command has ended with `code`; on the node of rank 0, add the others'.

        Where we ended the job ourselves, what the other nodes then say is our doing: what they said of the stall counts.
        """
        written_at = self._write(evidence, str(code), WrittenCase.END)
        if written_at is not None and code != 0 and not self.reports:
            self.reports = not self._rank_0_answers(written_at)
        if written_at is None or self._lowest != 0:
            return self._joined(evidence, ())
        if ended_by_us is None:
            return self._joined(evidence, self._others(self._joined_at, ended=True))
        here = {facts.rank for facts in evidence.ranks}
        elsewhere = tuple(facts for facts in ended_by_us.ranks if facts.rank not in here)
        return self._joined(evidence, [replace(ended_by_us, ranks=elsewhere)])

    def peer_node_failed(self) -> bool:
        """Whether the job has failed on the node of rank 0, so that the ranks here wait for nobody."""
        if self._lowest is None or self._lowest == 0 or self.directory is None or time.monotonic() < self._next_visit:
            return False
        self._next_visit = time.monotonic() + BEAT_SECONDS
        return self._rank_0_failed()

    def close(self) -> None:
        """Take the sign away: from now on the others speak for themselves."""
        if self._lowest is not None and self.directory is not None:
            with contextlib.suppress(OSError):
                self._sign(self._lowest).unlink(missing_ok=True)

    def _write(self, evidence: Evidence, ended: str, state: WrittenCase) -> float | None:
        """When this node's case was written, or None where it has none to write or could not."""
        if self._lowest is None or self.directory is None:
            return None
        own = self._case(self._lowest)
        with contextlib.suppress(OSError, DdpdoctorError):  # the speaker then tries again, and says why it cannot
            case.save(replace(evidence, meta={**evidence.meta, ENDED: ended}), own)
            self._written = state
            self.reports = self._lowest == 0 or (0 not in self._alive((0,)) and not self._rank_0_failed())
            return own.stat().st_mtime
        return None

    def _joined(self, evidence: Evidence, others: Iterable[Evidence]) -> Evidence:
        together = join([evidence, *others])
        absent = {*range(self._world_size)} - {facts.rank for facts in together.ranks}
        if not absent:
            return together
        note = (
            f"there is no evidence of {group_ranks([*absent])} of {self._world_size}, on other nodes: give `ddpdoctor watch` on "
            "every node the same shared `--case DIRECTORY`, or combine their cases with `ddpdoctor diagnose CASE...`"
        )
        return replace(together, notes=(*together.notes, note))

    def _others(self, since: float, *, ended: bool) -> Iterator[Evidence]:
        waiting = (self._seen | self._alive() | self._cases_since(since)) - {self._lowest}
        deadline = time.monotonic() + PATIENCE_SECONDS
        while waiting and time.monotonic() < deadline:
            for lowest in sorted(waiting & self._cases_since(since)):
                theirs = self._case_of(lowest)
                if theirs is not None and not (ended and not theirs.meta.get(ENDED)):
                    waiting.remove(lowest)
                    yield theirs
            time.sleep(POLL_SECONDS if waiting else 0.0)

    def _rank_0_answers(self, since: float) -> bool:
        """Whether the `watch` of rank 0's node shows itself after `since`; one that has died, with its node, never will."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while 0 in self._alive((0,)) and time.monotonic() < deadline:
            if self._rank_0_failed() or _times(self._sign(0)).get(0, 0.0) > since:
                return True
            time.sleep(POLL_SECONDS)
        return self._rank_0_failed()

    def _rank_0_failed(self) -> bool:
        written_at = _times(self._case(0)).get(0, 0.0)
        theirs = self._case_of(0) if written_at >= self._joined_at else None
        return theirs is not None and theirs.meta.get(ENDED, "") not in {"", "0"}

    def _alive(self, others: Sequence[int] | None = None) -> set[int]:
        """The lowest ranks of the nodes whose signs were touched lately, this one's included.

        Asked only about `others`, as every node but that of rank 0 does, it costs the file system as many questions: a
        thousand nodes that all list the directory are a million questions.
        """
        if others is None or self._lowest is None:
            times = _times(self._sign("*"))
        else:
            times = {lowest: at for each in {*others, self._lowest} for lowest, at in _times(self._sign(each)).items()}
        now = max(times.values(), default=0.0)
        return {lowest for lowest, touched in times.items() if touched > now - ALIVE_SECONDS}

    def _case_of(self, lowest: int) -> Evidence | None:
        """What another node has written; a file that has not changed since is not read again."""
        file = self._case(lowest)
        with contextlib.suppress(OSError, DdpdoctorError):
            status = file.stat()
            version = status.st_ino, status.st_mtime_ns, status.st_size
            if lowest not in self._read or self._read[lowest][0] != version:
                self._read[lowest] = version, case.load(file)
            return self._read[lowest][1]
        return None

    def _cases_since(self, since: float) -> set[int]:
        """The lowest ranks of the nodes whose cases were written after `since`."""
        return {lowest for lowest, at in _times(self._case("*")).items() if at >= since}

    def _sign(self, lowest: int | str) -> Path:
        assert self.directory is not None
        return self.directory / f".node-with-rank-{lowest}.runs"

    def _case(self, lowest: int | str) -> Path:
        assert self.directory is not None
        return self.directory / case.CASES_OF_NODES.replace("*", str(lowest))


def _part(ranks: Sequence[RankProcess]) -> tuple[int, int] | None:
    """The lowest rank of this node and the size of the job, or None where the job has no other node, as far as is known.

    The launcher says so, or, where none does (`mp.spawn`), a rank that trains: all ranks have joined by then. Each task of
    srun or mpirun may have a `watch` of its own, and is then its own node.
    """
    size = max(agent.header.world_size for agent in ranks)
    task = Launch.from_environ(os.environ)
    if task is not None and 1 < task.world_size == size and [agent.rank for agent in ranks] == [task.rank]:
        return task.rank, size
    launch = Launch.from_environ(processes.environ(ranks[0].pid) or {})
    if launch is not None and (launch.local_world_size or launch.world_size) < launch.world_size == size:
        return launch.rank - (launch.local_rank or 0), size
    if len(ranks) < size and any(agent.header.returned or agent.header.forwards for agent in ranks):
        return min(agent.rank for agent in ranks), size
    return None


def _times(pattern: Path) -> dict[int, float]:
    """When each of the files that match was last touched, by the number in its name."""
    found = {}
    for file in pattern.parent.glob(pattern.name) if "*" in pattern.name else (pattern,):
        with contextlib.suppress(OSError, ValueError):
            found[int(file.stem.rpartition("-")[2])] = file.stat().st_mtime
    return found

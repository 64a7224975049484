"""Follows a running job until it ends, and says when it stands still, waits for a busy rank, goes on, crawls, and ends."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from ddpdoctor.agent import given_up
from ddpdoctor.analysis.doing import Doings
from ddpdoctor.analysis.doing import derive as doings_of
from ddpdoctor.collect.agents import RankProcess, ended_processes, find_ranks
from ddpdoctor.collect.crawling import CODES, crawling
from ddpdoctor.collect.dumps import decode
from ddpdoctor.collect.endings import exits_of, with_log, with_users_faulthandler
from ddpdoctor.collect.joblog import read_logs
from ddpdoctor.collect.live import examine, targets_of
from ddpdoctor.collect.memory import MemoryWatch
from ddpdoctor.collect.other_nodes import OtherNodes
from ddpdoctor.collect.processes import is_alive
from ddpdoctor.collect.rank_server import NoAnswer, ask_worker_server
from ddpdoctor.collect.recorder import record_of
from ddpdoctor.collect.source import source_of
from ddpdoctor.collect.stall import Rhythm
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.pace import Looks
from ddpdoctor.evidence.process import ProcessState, Stall
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.launch.observed import ObservedJob
from ddpdoctor.model import group_ranks

POLL_SECONDS = 0.2
PROBE_SECONDS = 1.0
PACE_SECONDS = 60.0  # of steps before a running job is asked whether it crawls; then after four times as many
PROBE_DEADLINE_SECONDS = 0.5
LOG_BYTES = 1 << 19  # what one agent writes in its first minutes
MOST_LOOKS = 3  # at one pause: a busy machine can spoil a look, hardly three


@dataclass(frozen=True, slots=True)
class Stalled:
    """No rank has got on for longer than the job's patience.

    Whoever cannot explain it from `evidence` calls `Watch.look_again`, unless this was the `last` look at this pause.
    """

    evidence: Evidence
    seconds: float
    last: bool


@dataclass(frozen=True, slots=True)
class Waiting:
    """Ranks wait for one that visibly works: worth saying, and nothing more."""

    text: str


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job that stood still has gone on by itself."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Deserted:
    """The job stands still here, and on the node of rank 0 it has ended with an error."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The command has ended: -N for signal N."""

    code: int
    evidence: Evidence


@dataclass(frozen=True, slots=True)
class Crawling:
    """The job makes its steps, and one rank or its data keeps all others waiting.

    To every rule but those of `codes` a job in the middle of its work looks like one that stands still.
    """

    evidence: Evidence
    codes: tuple[str, ...] = CODES


Event: TypeAlias = Stalled | Waiting | Recovered | Crawling | Deserted | Ended


@dataclass(slots=True)
class Watch:
    """One job under observation, whose agents write to `directory`; `environment` is what we know its ranks to have."""

    job: ObservedJob
    directory: Path
    rhythm: Rhythm
    pace_after: float = PACE_SECONDS
    killed_by_us: bool = False
    environment: tuple[Environment, ...] = ()
    nodes: OtherNodes = field(default_factory=OtherNodes)
    _memory: MemoryWatch = field(default_factory=MemoryWatch)
    _stall: Evidence | None = None
    _notes: list[str] = field(default_factory=list)
    _next_look: float = 0.0
    _looks: int = 0
    _stepping_since: float | None = None
    _paces: dict[int, Looks] = field(default_factory=dict)

    def events(self) -> Iterator[Event]:
        """What happens to the job, until it has ended."""
        probe = _Probe()
        while (code := self.job.wait(POLL_SECONDS)) is None:
            ranks = find_ranks(self.directory)
            self._memory.observe(agent.pid for agent in ranks)
            self.nodes.beat(ranks)
            now = time.monotonic()
            quiet = self.rhythm.quiet(now)
            stepped = bool(ranks) and all(agent.header.steps for agent in ranks)
            if self.rhythm.observe((_signs(ranks), probe.moves(ranks, quiet)), now, stepped=stepped):
                self._next_look = 0.0
                if self._stall is not None:
                    self._stall, self._looks = None, 0
                    self._notes.append(f"the job stood still for {quiet:.1f} s and went on by itself")
                    yield Recovered(quiet)
                yield from self._pace(ranks, now, stepped=stepped)
            elif self._stall is not None and self.nodes.deserted():
                yield Deserted()
            elif ranks and quiet >= max(self._next_look, self.rhythm.patience()):
                yield from self._look(ranks, quiet)
        self.job.drain()
        yield Ended(
            code, self.nodes.at_the_end(self._at_the_end(code), code, self._stall if self.killed_by_us else None)
        )

    def _pace(self, ranks: tuple[RankProcess, ...], now: float, *, stepped: bool) -> Iterator[Event]:
        """Now and then, whether a job that gets on crawls."""
        if not stepped:
            return
        if self._stepping_since is None:
            self._stepping_since = now
        if now - self._stepping_since >= self.pace_after:
            self.pace_after *= 4
            found = crawling(ranks, socket.gethostname())
            if found is not None:
                self._paces = {
                    facts.rank: fact for facts in found.ranks for fact in facts.facts if isinstance(fact, Looks)
                }
                yield Crawling(found)

    def look_again(self) -> float:
        """Ask for another look at the same pause, as the last one explained nothing; returns in how many seconds."""
        seconds = self.rhythm.patience()
        self._next_look = self.rhythm.quiet(time.monotonic()) + seconds
        return seconds

    def _look(self, ranks: tuple[RankProcess, ...], quiet: float) -> Iterator[Event]:
        evidence = self.nodes.at_a_standstill(self._evidence(ranks, quiet), quiet)
        processes = evidence.per_rank(ProcessState)
        doings = doings_of(processes, evidence.per_rank(Stacks), None) if processes is not None else Doings(each=())
        working = [doing for doing in doings.elsewhere if doing.moves]
        if not doings.waiting and not any(doing.moves is False for doing in doings.elsewhere):
            self._next_look = quiet + self.rhythm.patience()
        elif working and quiet < self.rhythm.patience(moving=True):
            self._next_look = quiet + self.rhythm.patience()
            yield Waiting(_busy(doings))
        else:
            self._stall, self._next_look = evidence, math.inf
            self._looks += 1
            yield Stalled(evidence, quiet, last=self._looks == MOST_LOOKS)

    def _evidence(self, ranks: tuple[RankProcess, ...], quiet: float) -> Evidence:
        """All that is known of the job while it stands still."""
        began = time.time() - quiet
        facts, missing = examine(targets_of(ranks), host=socket.gethostname())
        looked = {found.rank: found for found in facts}
        stall = Stall(began_at=began, seconds=time.time() - began, limit_seconds=self.rhythm.patience())
        return self._together(ranks, looked, missing, stall, code=None)

    def _at_the_end(self, code: int) -> Evidence:
        """All that is known once the job has ended, with what it showed while it stood still, unless it went on."""
        stall = self._stall
        looked = {found.rank: found for found in stall.ranks} if stall is not None else {}
        ranks = find_ranks(self.directory)
        return self._together(
            ranks, looked, stall.missing if stall else (), stall.one(Stall) if stall else None, code=code
        )

    def _with_memory(self, ending: RankExit) -> RankExit:
        """The end of a rank that SIGKILL ended, with what the kernel counted and said."""
        if ending.exit_code != -signal.SIGKILL or ending.pid is None:
            return ending
        memory = self._memory.end_of(ending.pid)
        return replace(
            ending,
            oom_kills=memory.oom_kills,
            memory_limit_bytes=memory.limit_bytes,
            memory_peak_bytes=memory.peak_bytes,
            kernel_said=memory.kernel_said,
        )

    def _together(
        self,
        ranks: tuple[RankProcess, ...],
        looked: dict[int, RankFacts],
        missing: tuple[Missing, ...],
        stall: Stall | None,
        *,
        code: int | None,
    ) -> Evidence:
        host = socket.gethostname()
        ended = ended_processes(self.directory)
        exits = exits_of(ranks, ended, main=(self.job.pid, code), killed_by_us=self.killed_by_us)
        log = None
        exits = {rank: self._with_memory(ending) for rank, ending in exits.items()}
        if code is not None:
            with contextlib.suppress(OSError):
                exits, log = with_log(exits, read_logs(self.job.stderr_files()))
                said = "".join(path.read_text(errors="replace") for path in self.job.stderr_files())
                exits = with_users_faulthandler(exits, said)
        facts = []
        for agent in ranks:
            seen = looked[agent.rank].facts if agent.rank in looked else ()
            seen = tuple(fact for fact in seen if isinstance(fact, Stacks | ProcessState | FlightRecord))
            if not any(isinstance(fact, FlightRecord) for fact in seen):
                record = _kept_record(agent)
                seen = (*seen, record) if record is not None else seen
            ending = (exits[agent.rank],) if agent.rank in exits else ()
            looks = (self._paces[agent.rank],) if agent.rank in self._paces else ()
            told = (agent.steps(), agent.calls(), agent.pace(), *looks)
            facts.append(RankFacts(rank=agent.rank, host=host, facts=(*seen, *self.environment, *told, *ending)))
        source = source_of(_frames(facts))
        size = JobSize(ranks=max(agent.header.world_size for agent in ranks)) if ranks else None
        return Evidence(
            job=tuple(fact for fact in (stall, source, log, size) if fact is not None),
            ranks=tuple(facts),
            missing=missing if ranks else (*missing, *_no_ranks(self.directory)),
            notes=(*self._notes, *given_up(self.directory)),
            about_job=True,
        )


def _kept_record(agent: RankProcess) -> FlightRecord | None:
    """The recorder that the rank kept at its end, or what its strip knows of one that it could not keep."""
    kept = agent.recorder()
    if kept is not None:
        with contextlib.suppress(UndecidedError):
            return record_of(decode(kept))
    return agent.last_calls()


def _signs(ranks: tuple[RankProcess, ...]) -> tuple[tuple[int, ...], ...]:
    return tuple((agent.pid, *agent.header[5:8], agent.header.returned) for agent in ranks)


def _frames(facts: list[RankFacts]) -> Iterator[Frame]:
    for found in facts:
        for fact in found.facts:
            if isinstance(fact, Stacks):
                yield from (frame for thread in fact.threads for frame in thread.frames)
            elif isinstance(fact, FlightRecord):
                yield from fact.frames


def _busy(doings: Doings) -> str:
    """`rank 0 is busy in evaluate() (eval.py:40, on CPU 97 %), ranks 1-3 wait for it`."""
    first = next(doing for doing in doings.elsewhere if doing.moves)
    facts = [f"{first.place.file}:{first.place.line}"] if first.place is not None else []
    if first.process is not None and first.process.cpu_share is not None:
        facts.append(f"on CPU {100 * first.process.cpu_share:.0f} %")
    where = f" in {first.place.function}()" if first.place is not None else ""
    waiting = [doing.rank for doing in doings.waiting]
    verb = "wait" if len(waiting) > 1 else "waits"
    return f"rank {first.rank} is busy{where} ({', '.join(facts)}), {group_ranks(waiting)} {verb} for it"


def _no_ranks(directory: Path) -> Iterator[Missing]:
    reason = (
        "no process of the job called init_process_group with our agent in it (Python started with -I, -E or -S, inside a "
        "container or on another host runs without it)"
    )
    free = shutil.disk_usage(directory).free
    if free < LOG_BYTES:
        reason = (
            f"the agents could not write: {directory.parent} is full ({free} bytes are free); point TMPDIR elsewhere"
        )
    for kind in ("Stacks", "FlightRecord", "RankExit", "StepCount", "CollectiveCalls", "ProcessState"):
        yield Missing(kind=kind, reason=reason)


class _Probe:
    """Asks the recorders of a quiet job whether collectives that only C++ makes still go on.

    A long accumulation makes no optimizer step; its buckets are all that moves.
    """

    def __init__(self) -> None:
        self._moves = 0
        self._at = 0.0
        self._last: dict[int, str] = {}

    def moves(self, ranks: tuple[RankProcess, ...], quiet: float) -> int:
        """How often the recorders were seen to move; asks them about once a second while nothing else moves."""
        if quiet < PROBE_SECONDS:
            self._last, self._at = {}, 0.0
        elif quiet - self._at >= PROBE_SECONDS:
            self._at = quiet
            for agent in ranks:
                status = _status(agent)
                before = self._last.get(agent.pid)
                if status is not None:
                    self._last[agent.pid] = status
                    self._moves += before is not None and before != status
        return self._moves


def _status(agent: RankProcess) -> str | None:
    if not is_alive(agent.pid):
        return None
    try:
        body = ask_worker_server(agent.file("sock"), "fr_trace_json", deadline_seconds=PROBE_DEADLINE_SECONDS)
        return json.dumps(json.loads(body).get("pg_status"))
    except (NoAnswer, ValueError, AttributeError):
        return None

"""All that is known of a job under observation: while it stands still, and once it has ended."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from ddpdoctor.agent import given_up
from ddpdoctor.collect.agents import RankProcess, ended_processes, find_ranks
from ddpdoctor.collect.dumps import decode
from ddpdoctor.collect.endings import asked_to_end, exits_of, with_log, with_users_faulthandler, without_echoes
from ddpdoctor.collect.joblog import read_logs
from ddpdoctor.collect.live import examine, targets_of
from ddpdoctor.collect.memory import MemoryWatch
from ddpdoctor.collect.recorder import record_of
from ddpdoctor.collect.source import source_of
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.pace import Looks
from ddpdoctor.evidence.process import ProcessState, Stall
from ddpdoctor.evidence.ranks import JobSize, RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.launch.observed import ObservedJob, Received

LOG_BYTES = 1 << 19  # what one agent writes in its first minutes


@dataclass(slots=True)
class JobEvidence:
    """Brings together what the agents wrote to `directory`, what the ranks show, how they ended and what they printed.

    `environment` is what we know the ranks to have, `looks` are those at slow ranks by rank, `notes` go into every report;
    `killed_at` is when we ended the job, if we did.
    """

    job: ObservedJob
    directory: Path
    environment: tuple[Environment, ...] = ()
    killed_at: float | None = None
    memory: MemoryWatch = field(default_factory=MemoryWatch)
    looks: dict[int, Looks] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def while_it_stands_still(self, ranks: tuple[RankProcess, ...], quiet: float, patience: float) -> Evidence:
        """What its ranks show after `quiet` seconds without a sign of life, when `patience` seconds were granted."""
        began = time.time() - quiet
        facts, missing = examine(targets_of(ranks), host=socket.gethostname())
        looked = {found.rank: found for found in facts}
        stall = Stall(began_at=began, seconds=time.time() - began, limit_seconds=patience)
        return self._together(ranks, looked, missing, stall, code=None)

    def at_the_end(self, code: int, stall: Evidence | None) -> Evidence:
        """What is known once the job has ended with `code`, with what it showed while it stood still, unless it went on."""
        looked = {found.rank: found for found in stall.ranks} if stall is not None else {}
        ranks = find_ranks(self.directory)
        return self._together(
            ranks, looked, stall.missing if stall else (), stall.one(Stall) if stall else None, code=code
        )

    def _with_memory(self, ending: RankExit) -> RankExit:
        """The end of a rank that SIGKILL ended, with what the kernel counted and said."""
        if ending.exit_code != -signal.SIGKILL or ending.pid is None:
            return ending
        memory = self.memory.end_of(ending.pid)
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
        codes = {code, *(one.code for one in ended.values())}
        asked = asked_to_end(self.job.received, codes, time.time())
        exits = exits_of(ranks, ended, main=(self.job.pid, code), killed_at=self.killed_at, asked=asked)
        log = None
        exits = {rank: self._with_memory(ending) for rank, ending in exits.items()}
        if code is not None:
            with contextlib.suppress(OSError):
                exits, log = with_log(exits, read_logs(self.job.stderr_files()))
                said = "".join(path.read_text(errors="replace") for path in self.job.stderr_files())
                exits = with_users_faulthandler(exits, said)
        if asked is not None:
            exits, log = without_echoes(exits, log, asked)
        interrupted = (
            asked is not None
            and stall is None
            and all(ending.ended_by_launcher or ending.exit_code == 0 for ending in exits.values())
        )
        facts = []
        for agent in ranks:
            seen = looked[agent.rank].facts if agent.rank in looked else ()
            seen = tuple(fact for fact in seen if isinstance(fact, Stacks | ProcessState | FlightRecord))
            if not interrupted:
                seen = _with_a_recorder(seen, agent)
            ending = (exits[agent.rank],) if agent.rank in exits else ()
            looks = (self.looks[agent.rank],) if agent.rank in self.looks else ()
            calls = () if interrupted else (agent.calls(),)
            told = (agent.steps(), *calls, agent.pace(), *agent.thread_errors(), *looks)
            facts.append(RankFacts(rank=agent.rank, host=host, facts=(*seen, *self.environment, *told, *ending)))
        source = source_of(_frames(facts))
        size = JobSize(ranks=max(agent.header.world_size for agent in ranks)) if ranks else None
        return Evidence(
            job=tuple(fact for fact in (stall, source, log, size) if fact is not None),
            ranks=tuple(facts),
            missing=(
                *missing,
                *(() if ranks else _no_ranks(self.directory)),
                *(_interrupted(asked) if asked is not None and interrupted else ()),
            ),
            notes=(*self.notes, *given_up(self.directory)),
            about_job=True,
        )


def _with_a_recorder(
    seen: tuple[Stacks | ProcessState | FlightRecord, ...], agent: RankProcess
) -> tuple[Stacks | ProcessState | FlightRecord, ...]:
    """`seen` with the recorder that tells most: one with lines, alive or kept at the end; else one without; else the strip.

    A rank whose interpreter is ending hands out its recorder, but can no longer say at which lines the calls were made.
    """
    live = next((fact for fact in seen if isinstance(fact, FlightRecord)), None)
    if live is not None and live.frames:
        return seen
    record = _kept_record(agent) or live or agent.last_calls()
    others = tuple(fact for fact in seen if fact is not live)
    return (*others, record) if record is not None else others


def _kept_record(agent: RankProcess) -> FlightRecord | None:
    """The recorder that the rank kept at its end, where it could."""
    kept = agent.recorder()
    if kept is not None:
        with contextlib.suppress(UndecidedError):
            return record_of(decode(kept))
    return None


def _frames(facts: list[RankFacts]) -> Iterator[Frame]:
    for found in facts:
        for fact in found.facts:
            if isinstance(fact, Stacks):
                yield from (frame for thread in fact.threads for frame in thread.frames)
            elif isinstance(fact, FlightRecord):
                yield from fact.frames


def _interrupted(asked: Received) -> Iterator[Missing]:
    """Why the last calls of a job that was ended in the middle of its work say nothing."""
    reason = f"{asked.signal.name} ended the job in the middle of its work, where its ranks are never quite in step"
    for kind in ("FlightRecord", "CollectiveCalls"):
        yield Missing(kind=kind, reason=reason)


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

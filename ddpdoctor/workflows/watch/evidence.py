"""All that is known of a job under observation: during a stall, and after it has ended."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from ddpdoctor.agent import given_up
from ddpdoctor.analysis.collectives.recorders.agents_transfers import RECEIVES, SENDS
from ddpdoctor.analysis.crashes.end_request import ended_as_requested
from ddpdoctor.errors import UndecidedError
from ddpdoctor.evidence import Evidence, Missing, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.host import Environment
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.launch import Joining
from ddpdoctor.evidence.process import ProcessState, Stall
from ddpdoctor.evidence.ranks import CollectiveCalls, EndRequest, JobSize, MissingGradients, RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.run import CommandRun
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.evidence.step_times import Looks
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.host.oom import MemoryWatch
from ddpdoctor.host.running_jobs import LaunchedProcess, ended_for, launched_for
from ddpdoctor.launch.observed_job import ObservedJob
from ddpdoctor.ranks.agent_files import RankProcess, ended_processes, find_ranks, ranks_of_attempts
from ddpdoctor.ranks.call_log_reader import CallLogReader
from ddpdoctor.ranks.fr_dump_files import decode
from ddpdoctor.ranks.fr_parser import record_of
from ddpdoctor.ranks.loaded_versions import versions_of
from ddpdoctor.ranks.processor_time import ProcessorTimes
from ddpdoctor.ranks.rank_exits import (
    asked_to_end,
    exits_of,
    failures_in_launch,
    with_log,
    with_users_faulthandler,
    without_handled_errors,
)
from ddpdoctor.ranks.snapshot import examine
from ddpdoctor.ranks.target import Target, targets_of
from ddpdoctor.source.stack_lines.context import source_of
from ddpdoctor.source.stack_lines.env_overwrites import overwrites_of
from ddpdoctor.workflows.value_chains import chains_in_source
from ddpdoctor.workflows.verify_notes import averages, ends_not_compared, not_comparable, not_made_again, not_probed
from ddpdoctor.workflows.watch.attempts import Attempts
from ddpdoctor.workflows.watch.replica_audit import ReplicaAudit

Seen: TypeAlias = Stacks | ProcessState | FlightRecord | Joining | MissingGradients

LOG_BYTES = 1 << 19  # what one agent writes in its first minutes


@dataclass(slots=True)
class JobEvidence:
    """Brings together what the agents wrote, what the ranks show, how they ended and what they printed."""

    job: ObservedJob
    """The command under observation."""
    directory: Path
    """Where the agents write."""
    environment: tuple[Environment, ...] = ()
    """What is known of the variables of all ranks."""
    killed_at: float | None = None
    """When `watch` ended the job; None where it did not."""
    memory: MemoryWatch = field(default_factory=MemoryWatch)
    """What the kernel says of memory."""
    processors: ProcessorTimes = field(default_factory=ProcessorTimes)
    """How long each rank had a processor."""
    looks: dict[int, Looks] = field(default_factory=dict)
    """By rank, the samples of slow ranks."""
    notes: list[str] = field(default_factory=list)
    """Notes for every report."""
    audit: ReplicaAudit | None = None
    """Where the ranks' replicas are compared while the job runs."""
    launched: int = 0
    """How many ranks the launcher said that there are, once somebody looked."""
    run: CommandRun | None = None
    """What was started, and when."""

    def note_versions(self, ranks: tuple[RankProcess, ...]) -> None:
        """Look up what the first rank has loaded, once there is one: it cannot be asked after its end."""
        if ranks and self.run is not None and "torch" not in self.run.versions:
            self.run = replace(self.run, versions={**self.run.versions, **versions_of(ranks[0].pid)})

    def during_stall(self, ranks: tuple[RankProcess, ...], quiet: float, *, stalled: bool = True) -> Evidence:
        """What its ranks show after `quiet` seconds without a sign of life, or, where they are not `stalled`, at any time.

        Processes of the launch that have not called `init_process_group` are ranks too.
        """
        began = time.time() - quiet
        alive = targets_of(ranks)
        launched = {process.rank: process for process in launched_for(self.directory)}
        self.launched = max((process.world_size for process in launched.values()), default=self.launched)
        absent = [process for process in launched.values() if process.rank not in {target.rank for target in alive}]
        targets = (*alive, *(Target(rank=process.rank, pid=process.pid) for process in absent))
        facts, missing = examine(targets, host=socket.gethostname())
        facts = tuple(_with_joining(found, ranks, launched, absent) for found in facts)
        of_absent = {process.rank for process in absent}
        missing = tuple(lost for lost in missing if lost.kind != FlightRecord.__name__ or lost.rank not in of_absent)
        looked = {found.rank: found for found in facts}
        joined = {agent.rank for agent in ranks}
        for rank, code in ended_for(self.directory).items():
            if code is not None and rank not in joined:
                looked[rank] = RankFacts(rank=rank, host=socket.gethostname(), facts=(RankExit(exit_code=code),))
        stall = Stall(seconds=time.time() - began) if stalled else None
        return self._together(ranks, looked, missing, stall, code=None)

    def after_exit(self, code: int, stall: Evidence | None) -> Evidence:
        """What is known once the job has ended with `code`, with what its stall showed, unless it went on."""
        looked = {found.rank: found for found in stall.ranks} if stall is not None else {}
        return self._together(
            find_ranks(self.directory),
            looked,
            stall.missing if stall else (),
            stall.one(Stall) if stall else None,
            code=code,
        )

    def ranks(self) -> tuple[RankProcess, ...]:
        """The ranks, as far as they are now, or were when they ended."""
        return find_ranks(self.directory)

    def replicas_compared(self) -> str:
        """At which steps the replicas of a job that has ended were compared; empty where nobody asked for that."""
        return self.audit.in_words(self.ranks()) if self.audit is not None else ""

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
        attempts = Attempts.of(ranks, self.job.stderr_files() if code is not None else ())
        if attempts.last > max((agent.header.restart for agent in ranks), default=0):
            ranks, looked = (), {}  # of the last attempt, which no rank joined, the log alone tells
        ending = self._ending(ranks, attempts.log, stall, code)
        tracks = {found.rank: found.facts for found in self.audit.facts()} if self.audit is not None else {}
        joined = self._joined(ranks, looked, ending, tracks)
        seen = joined.keys() | looked.keys()
        facts = self._of_ranks(joined, looked, ending)
        sizes = [agent.header.world_size for agent in ranks] or [self.launched]
        of_job = (
            self.run if self.run is None or code is None else replace(self.run, ended_at=time.time(), exit_code=code),
            stall,
            source_of(_frames(facts)),
            chains_in_source(_tracks(tracks.values())),
            overwrites_of(_frames(facts)),
            ending.log,
            JobSize(ranks=max(sizes)) if seen else None,
            ending.request,
        )
        return Evidence(
            job=tuple(fact for fact in of_job if fact is not None),
            ranks=tuple(sorted(facts, key=lambda found: found.rank)),
            missing=(
                *missing,
                *(() if seen else _no_ranks(self.directory)),
                *(_interrupted(ending.request) if ending.request is not None and ending.interrupted else ()),
            ),
            notes=(
                *self.notes,
                *_lost_stderr(self.job),
                *given_up(self.directory),
                *(self.audit.notes if self.audit is not None else ()),
                *_notes_of(_tracks(tracks.values())),
            ),
            about_job=True,
            earlier=tuple(self._earlier(number, attempts) for number in attempts.earlier),
        )

    def _earlier(self, number: int, attempts: Attempts) -> Evidence:
        """What is known of an attempt before the last one: how its ranks ended, what they had called, and what they printed."""
        ranks = ranks_of_attempts(self.directory).get(number, ())
        ended = ended_processes(self.directory)
        exits = exits_of(ranks, ended, main=(self.job.pid, None), killed_at=None)
        exits = {rank: self._with_memory(end) for rank, end in exits.items()}
        log, printed = None, attempts.printed_in(number)
        if printed is not None:
            exits, log = with_log(exits, printed, {agent.rank for agent in ranks})
        ending = _Ending(exits=exits, log=log, request=None, interrupted=False)
        facts = self._of_ranks(self._joined(ranks, {}, ending, {}), {}, ending)
        size = JobSize(ranks=max(agent.header.world_size for agent in ranks)) if ranks else None
        of_job = (source_of(_frames(facts)), overwrites_of(_frames(facts)), log, size)
        return Evidence(job=tuple(fact for fact in of_job if fact is not None), ranks=tuple(facts), about_job=True)

    def _of_ranks(
        self, joined: Mapping[int, tuple[Any, ...]], looked: Mapping[int, RankFacts], ending: _Ending
    ) -> list[RankFacts]:
        """The facts about every rank that joined, showed something or ended."""
        ended = {rank: (end,) for rank, end in ending.exits.items()}  # of ranks that never joined the log alone tells
        shown = {rank: (*found.facts, *self.environment) for rank, found in looked.items()}
        host = socket.gethostname()
        return [RankFacts(rank=rank, host=host, facts=facts) for rank, facts in {**ended, **shown, **joined}.items()]

    def _ending(
        self, ranks: tuple[RankProcess, ...], read: Evidence | None, stall: Stall | None, code: int | None
    ) -> _Ending:
        """How the ranks ended, with what was `read` of the log once the job has ended with `code`."""
        ended = ended_processes(self.directory)
        asked = asked_to_end(self.job.received, {code, *(one.code for one in ended.values())}, time.time())
        exits = exits_of(ranks, ended, main=(self.job.pid, code), killed_at=self.killed_at, asked=asked)
        exits = {rank: self._with_memory(ending) for rank, ending in exits.items()}
        log = None
        if code is not None and read is not None:
            exits, log = with_log(exits, read, {agent.rank for agent in ranks})
            if log is not None and code == 0 and (read.earlier or not any(failures_in_launch(ranks, ended))):
                log = without_handled_errors(exits, log)
            with contextlib.suppress(OSError):
                stderr = "".join(path.read_text(errors="replace") for path in self.job.stderr_files())
                exits = with_users_faulthandler(exits, stderr)
        request = EndRequest(signal=asked.signal, at=asked.at) if asked is not None else None
        interrupted = request is not None and stall is None and ended_as_requested(exits, request)
        return _Ending(exits=exits, log=log, request=request, interrupted=interrupted)

    def _joined(
        self,
        ranks: tuple[RankProcess, ...],
        looked: Mapping[int, RankFacts],
        ending: _Ending,
        tracks: Mapping[int, tuple[Any, ...]],
    ) -> dict[int, tuple[Any, ...]]:
        """What is known of each rank that has joined."""
        recorded = any(len(fact) for found in looked.values() for fact in found.facts if isinstance(fact, FlightRecord))
        found: dict[int, tuple[Any, ...]] = {}
        for agent in ranks:
            shown = looked[agent.rank].facts if agent.rank in looked else ()
            seen = tuple(fact for fact in shown if isinstance(fact, Seen))
            call_log = agent.call_log()
            end = ending.exits.get(agent.rank)
            calls: tuple[CollectiveCalls, ...] = ()
            if not ending.interrupted:
                at_end = end is not None and end.exit_code == 0
                seen = _with_a_recorder(seen, agent, call_log, peers_recorded=recorded, at_end=at_end)
                calls = (call_log.calls(),)
            timed = (call_log.pace(), self.processors.of_rank(agent.rank), self.looks.get(agent.rank))
            written = (agent.steps(), *calls, *timed, *agent.thread_errors(), *tracks.get(agent.rank, ()), end)
            found[agent.rank] = (*seen, *self.environment, *(fact for fact in written if fact is not None))
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ending:
    """How the job's processes have ended, as far as they have."""

    exits: Mapping[int, RankExit]
    """By rank."""
    log: JobLog | None
    """What the job printed, once it has ended."""
    request: EndRequest | None
    """The signal that asked the job to end."""
    interrupted: bool
    """That signal ended the job in the middle of its work."""


def _notes_of(followed: Sequence[Track]) -> Iterator[str]:
    """What there is to know of the comparison of the replicas."""
    for notes in (averages, not_comparable, ends_not_compared, not_made_again, not_probed):
        yield from notes(followed)


def _lost_stderr(job: ObservedJob) -> Iterator[str]:
    """Said where the job could not write to its stderr until its end."""
    if job.has_lost_stderr:
        yield (
            "the job's stderr was closed: the process that passes it on failed each time it was started, as without memory; "
            "what the job wrote after that is lost, and a program that writes there may have ended with BrokenPipeError"
        )


def _tracks(traced: Iterable[tuple[Any, ...]]) -> list[Track]:
    return [fact for facts in traced for fact in facts if isinstance(fact, Track)]


def _with_joining(
    found: RankFacts,
    ranks: tuple[RankProcess, ...],
    launched: Mapping[int, LaunchedProcess],
    absent: Sequence[LaunchedProcess],
) -> RankFacts:
    """`found` with what is known of how its process joins the others; nothing where neither a launcher nor its agent tells.

    What the launcher started is not known of a rank that another process of this number has started, as mp.spawn does.
    """
    process = launched.get(found.rank)
    agent = next((agent for agent in ranks if agent.rank == found.rank), None)
    if process is None and agent is None:
        return found
    joining = replace(process.joining, called=process not in absent) if process is not None else Joining(called=True)
    if process is not None and agent is not None and agent.pid != process.pid:
        joining = replace(joining, started=None)
    return replace(found, facts=(*found.facts, agent.joining(joining) if agent is not None else joining))


def _with_a_recorder(
    seen: tuple[Seen, ...], agent: RankProcess, call_log: CallLogReader, *, peers_recorded: bool, at_end: bool
) -> tuple[Seen, ...]:
    """`seen` with the recorder that shows most: one with lines, alive or kept at the end; else one without; else the calls.

    A rank whose interpreter is ending hands out its recorder, but can no longer say at which lines the calls were made.
    `at_end` says that the rank ended with exit code 0: what it showed in a stall before is older than what it kept.
    """
    live = next((fact for fact in seen if isinstance(fact, FlightRecord)), None)
    others = tuple(fact for fact in seen if fact is not live)
    kept = _kept_record(agent) if at_end or live is None or not live.frames else None
    if live is not None and live.frames and kept is None:
        return seen
    if live is not None and not len(live) and peers_recorded and agent.header.written:
        # gloo's recorder has no entry of sends and receives; with other calls it is not the recorder that its peers have
        return (*others, live) if _called_transfers_only(call_log) else others
    record = kept or live or call_log.flight_record()
    return (*others, record) if record is not None else others


def _called_transfers_only(call_log: CallLogReader) -> bool:
    """Whether all calls that the ring holds are sends and receives."""
    return all(call.op in (*SENDS, *RECEIVES) for call in call_log.calls().calls)


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
            if isinstance(fact, Stacks | FlightRecord):
                yield from fact.frames
            elif isinstance(fact, CollectiveCalls):
                yield from (frame for forward in fact.forwards for frame in forward.stack)
            elif isinstance(fact, RankExit):
                yield from fact.error.stack if fact.error is not None else fact.left_by
                yield from fact.native_stack
            elif isinstance(fact, Track):
                yield from (step.line for step in fact.steps if step.line is not None)


def _interrupted(request: EndRequest) -> Iterator[Missing]:
    """Why the last calls of a job that was ended in the middle of its work say nothing."""
    reason = f"{signal.Signals(request.signal).name} ended the job while it was running, when ranks are never exactly in step"
    for kind in ("FlightRecord", "CollectiveCalls"):
        yield Missing(kind=kind, reason=reason)


def _no_ranks(directory: Path) -> Iterator[Missing]:
    reason = (
        "no process that ddpdoctor sees called init_process_group (it sees no Python that was started with -I, -E or -S, in a "
        "container or on another host)"
    )
    free = shutil.disk_usage(directory).free
    if free < LOG_BYTES:
        reason = f"the agents could not write: {directory.parent} is full ({free} bytes free); set TMPDIR to another directory"
    for kind in ("Stacks", "FlightRecord", "RankExit", "StepCount", "CollectiveCalls", "ProcessState"):
        yield Missing(kind=kind, reason=reason)

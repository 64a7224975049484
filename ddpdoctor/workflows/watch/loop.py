"""Follows a running job until it ends, and says when it hangs, waits for a busy rank, resumes, is slow, and ends."""

from __future__ import annotations

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from ddpdoctor.agent.inside.process.freed_memory import return_freed_memory
from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.derivation import derived
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.host.processes import is_alive
from ddpdoctor.model import group_ranks, verb
from ddpdoctor.ranks.agent_files import RankProcess, find_ranks
from ddpdoctor.ranks.processor_time import as_text
from ddpdoctor.ranks.rank_exits import asked_to_end
from ddpdoctor.workflows.slow_job_check import CODES, looks_in, pace_of, slow_ranks
from ddpdoctor.workflows.watch.evidence import JobEvidence
from ddpdoctor.workflows.watch.judging_process import JudgingProcess
from ddpdoctor.workflows.watch.multi_node import OtherNodes
from ddpdoctor.workflows.watch.progress_probe import QuietMoves
from ddpdoctor.workflows.watch.stall_detector import FIRST_STEP_SECONDS, WHILE_MOVING, StallDetector

POLL_SECONDS = 0.2
# of steps before the first check whether a progressing job is slow, which pauses it for 50 ms; then twice as many each time
PACE_SECONDS = 8.0
SETTLED_PACE_SECONDS = 15.0  # of steps before a job is called slow while it runs: a warm-up has passed
LAST_LOOK_SECONDS = 5.0  # after the end of a job, for the samples of its slow rank, which take two
SETTLED_SECONDS = 3.0  # from a call that comes back with an error to the rank's last word on a busy machine
CROWDED = 8.0  # processes that want each processor: a rank then has an eighth of one
_SERVED = frozenset({Activity.LOCK, Activity.HANDOVER})  # by another thread of the rank
MOST_LOOKS = 3  # at one pause: a busy machine can spoil a look, hardly three


@dataclass(frozen=True, slots=True)
class Stalled:
    """No rank has got on for longer than the job's patience.

    Whoever cannot explain it from `evidence` calls `Watch.look_again`, unless `last` is set.
    """

    evidence: Evidence
    """What the ranks showed at this look."""
    seconds: float
    """Since the last sign of life of any rank."""
    last: bool
    """Whether this was the last look at this pause."""
    alive: tuple[int, ...] = ()
    """The ranks that others wait for and that show what a healthy job could show: they compute, read or write."""


@dataclass(frozen=True, slots=True)
class RankAtWork:
    """Ranks wait for one that visibly works: worth saying, and nothing more."""

    text: str
    """Who works at what, and who waits for it."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job that hung has gone on by itself."""

    seconds: float
    """For how long no rank had got on."""


@dataclass(frozen=True, slots=True)
class PeerNodeFailed:
    """The job hangs here, and on the node of rank 0 it has ended with an error."""


@dataclass(frozen=True, slots=True)
class JobEnd:
    """The command has ended."""

    code: int
    """Its exit code, or -N for signal N."""
    evidence: Evidence
    """All that is known of the job, with what its last stall showed."""


@dataclass(frozen=True, slots=True)
class SlowJob:
    """The job makes its steps, and one rank or its data keeps all others waiting."""

    evidence: Evidence
    """What the recorders of this host's ranks show."""
    codes: tuple[str, ...] = CODES
    """The rules that may judge it: to all others a job in the middle of its work looks like one that hangs."""


@dataclass(frozen=True, slots=True)
class ReplicasDiverged:
    """The job makes its steps, and its replicas differ, or will."""

    evidence: Evidence
    """What its ranks wrote down of their training."""


Event: TypeAlias = Stalled | RankAtWork | Recovered | SlowJob | ReplicasDiverged | PeerNodeFailed | JobEnd

# of each rank its process, and how many calls, forwards and steps it has begun
Begun: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Resumed:
    """A sign of life `at` some time, after a stall of `quiet` seconds."""

    at: float
    quiet: float


@dataclass(slots=True)
class Watch:
    """One job under observation."""

    known: JobEvidence
    """What is known of it."""
    stall_detector: StallDetector
    """When it has made no progress for too long."""
    nodes: OtherNodes = field(default_factory=OtherNodes)
    """The nodes on which the rest of it runs."""
    pace_after: float = PACE_SECONDS
    """For how many seconds it makes steps before its pace is judged next; doubled each time."""
    on_poll: Callable[[Sequence[RankProcess], float], None] = field(default=lambda _ranks, _quiet: None)
    """Called five times a second with the ranks of this host and the seconds since the last sign of life."""
    _training: StallDetector = field(default_factory=StallDetector)
    _stall: Evidence | None = None
    _in_training: bool = False  # the stall is one of the training, beside which other threads make calls
    _begun: Begun = ()
    _resumed: _Resumed | None = None
    _next_look: float = 0.0
    _next_look_at_training: float = 0.0
    _looks: int = 0
    _stepping_since: float | None = None
    _slow_job_rules: JudgingProcess = field(default_factory=lambda: JudgingProcess("slow_job_rules.py"))

    def events(self) -> Iterator[Event]:
        """What happens to the job, until it has ended."""
        with contextlib.closing(self._slow_job_rules):
            yield from self._events()

    def _events(self) -> Iterator[Event]:
        known, moves = self.known, QuietMoves()
        self._training.given = self.stall_detector.given
        while (code := known.job.wait(POLL_SECONDS)) is None:
            ranks = find_ranks(known.directory)
            known.memory.observe(agent.pid for agent in ranks)
            known.note_versions(ranks)
            self.nodes.beat(ranks)
            now = time.monotonic()
            quiet = self.stall_detector.quiet(now)
            stepped = bool(ranks) and all(agent.header.steps for agent in ranks)
            moved = self.stall_detector.observe((_signs(ranks), moves.seen(ranks, quiet)), now, stepped=stepped)
            trained = self._training.observe(_signs_of_training(ranks), now, stepped=stepped)
            if trained:
                self._next_look_at_training = 0.0
            if self._in_training:
                moved, quiet = trained, self._training.quiet(now)
            if stepped:
                known.processors.observe({agent.rank: agent.pid for agent in ranks})
            self.on_poll(ranks, 0.0 if moved else quiet)
            if moved and self._stall is None:
                self._next_look = 0.0
                self.nodes.clear_stall()
            elif moved:
                self._resumed = self._resumed or _Resumed(now, quiet)
            if self._goes_on(ranks, now):
                yield self._recovered()
            if self.known.audit is not None and (differing := self.known.audit.look(ranks)) is not None:
                yield ReplicasDiverged(differing)
            if moved:
                yield from self._pace(ranks, now, stepped=stepped)
            elif self._stall is not None and self.nodes.peer_node_failed():
                yield PeerNodeFailed()
            elif quiet >= max(self._next_look, self.stall_detector.patience()):
                yield from self._look(ranks, quiet)
            if self._stall is None and not trained:
                yield from self._look_at_training(ranks, now)
        if code == 0 and self._resumed is not None and not self._is_asked_to_end():
            yield self._recovered()
        known.job.drain()
        if code == 0:
            self._has_looked(LAST_LOOK_SECONDS)
        ended = known.after_exit(code, self._stall)
        yield JobEnd(code, self.nodes.on_exit(ended, code, self._stall if known.killed_at is not None else None))

    def _goes_on(self, ranks: tuple[RankProcess, ...], now: float) -> bool:
        """Whether a job that hung has begun something new, or calls of it came back without the end of any rank.

        Where peers time out or die, calls come back with an error: that is how a hang ends a job, and no way out of it. Nor is
        what a job does once a rank was killed or a signal asked it to end.
        """
        if self._resumed is None or self._is_asked_to_end() or any(map(_died, ranks)):
            return False
        if self._begun_now(ranks) != self._begun:
            return True
        return now - self._resumed.at > SETTLED_SECONDS and not any(_failed(agent) for agent in ranks)

    def _is_asked_to_end(self) -> bool:
        return asked_to_end(self.known.job.received, (), time.time()) is not None

    def _recovered(self) -> Recovered:
        assert self._resumed is not None
        self.nodes.clear_stall()
        quiet = self._resumed.quiet
        self._stall, self._resumed, self._looks, self._next_look = None, None, 0, 0.0
        self._in_training = False
        self.known.notes.append(f"no progress for {quiet:.1f} s, then the job resumed")
        return Recovered(quiet)

    def _pace(self, ranks: tuple[RankProcess, ...], now: float, *, stepped: bool) -> Iterator[Event]:
        """Checks from time to time whether a progressing job is slow, first in a separate process.

        That process frees its memory when it ends. What the first check finds is only kept for the end of a short job.
        """
        if not stepped:
            return
        if self._stepping_since is None:
            self._stepping_since = now
        if now - self._stepping_since >= self.pace_after and not self._slow_job_rules.is_running:
            self.pace_after *= 2
            self._slow_job_rules.start(str(self.known.directory), as_text(self.known.processors.by_rank()))
        elif self._has_looked() and now - self._stepping_since >= SETTLED_PACE_SECONDS:
            pace = pace_of(ranks, socket.gethostname(), self.known.processors.by_rank())
            is_slow = bool(slow_ranks(pace))
            return_freed_memory()  # the ranks' recorders
            if is_slow:
                yield SlowJob(pace.with_facts(self.known.looks))

    def _has_looked(self, within: float = 0.0) -> bool:
        """Whether the check of the pace has found something, `within` so many seconds; what it saw is then known."""
        found = self._slow_job_rules.needs_a_look(within)
        if found:
            self.known.looks = looks_in(self.known.directory) or self.known.looks
        return found

    def look_again(self) -> float:
        """Ask for another look at the same pause, as the last one explained nothing; returns in how many seconds."""
        detector = self._training if self._in_training else self.stall_detector
        seconds = detector.patience()
        self._next_look = detector.quiet(time.monotonic()) + seconds
        return seconds

    def _begun_now(self, ranks: tuple[RankProcess, ...]) -> Begun:
        return _begun_in_training(ranks) if self._in_training else _begun(ranks)

    def _look(self, ranks: tuple[RankProcess, ...], quiet: float) -> Iterator[Event]:
        evidence = self.known.during_stall(ranks, quiet)
        if self._begun_now(find_ranks(self.known.directory)) != self._begun_now(ranks):
            return  # it went on while it was looked at, which takes seconds on a busy machine
        evidence = self.nodes.on_stall(evidence, quiet)
        activities = derived(evidence, Activities) or Activities(each=())
        working = _at_work(activities)
        unseen = [] if activities.elsewhere else self._unseen(evidence)
        nobody_waits = not activities.waiting and all(
            activity.shows_life or activity.moves is None for activity in activities.elsewhere
        )
        if self._starts_or_advances(activities, quiet) or (nobody_waits and self.stall_detector.given is None):
            self._next_look = quiet + self.stall_detector.patience()
        elif (working or unseen) and quiet < self.stall_detector.patience(moving=True):
            self._next_look = quiet + self.stall_detector.patience()
            yield RankAtWork(_busy(activities) if working else _elsewhere(activities, unseen))
        else:
            yield self._stalled(evidence, ranks, quiet, working)

    def _stalled(
        self, evidence: Evidence, ranks: tuple[RankProcess, ...], quiet: float, alive: tuple[int, ...]
    ) -> Stalled:
        self._stall, self._begun, self._next_look = evidence, self._begun_now(ranks), math.inf
        self._looks += 1
        return Stalled(evidence, quiet, last=self._looks >= MOST_LOOKS, alive=alive)

    def _look_at_training(self, ranks: tuple[RankProcess, ...], now: float) -> Iterator[Event]:
        """Look at a job of which only threads beside the training still make calls: a heartbeat hides no hang.

        It hangs where a rank stands in a wait for its peers. Ten times the patience, unless the user gave one, has a rank that
        shows what a healthy job could show, and one that waits for another of its own threads: that may make the calls.
        """
        quiet = self._training.quiet(now)
        patience, granted = self._training.patience(), self._training.patience(moving=True)
        if self.stall_detector.quiet(now) >= patience or quiet < max(patience, self._next_look_at_training):
            return
        self._next_look_at_training = min(2 * quiet, granted) if quiet < granted else 2 * quiet
        evidence = self.known.during_stall(ranks, quiet)
        if _begun_in_training(find_ranks(self.known.directory)) != _begun_in_training(ranks):
            return
        activities = derived(evidence, Activities) or Activities(each=())
        may_go_on = _is_crowded() or any(activity.moves is not False for activity in activities.waiting)
        if not activities.waiting or (may_go_on and self._training.given is None):
            return
        if self._unseen(evidence) or self._starts_or_advances(activities, quiet):
            return
        working = _at_work(activities)
        if (working or activities.of(*_SERVED)) and quiet < granted:
            if working:
                yield RankAtWork(_busy(activities))
            return
        self._in_training = True
        yield self._stalled(self.nodes.on_stall(evidence, quiet), ranks, quiet, working)

    def _starts_or_advances(self, activities: Activities, quiet: float) -> bool:
        """Whether ranks are not there yet, prepare, or come to other lines: signs that hold also for what the user gave."""
        starts = quiet < FIRST_STEP_SECONDS and any(map(self._starts, activities.each))
        waits = activities.waiting or activities.of(Activity.STORE)  # for what another rank sets
        goes_on = any(one.advanced for one in activities.each) or (not waits and _is_crowded())
        advances = goes_on and quiet < self.stall_detector.patience() * WHILE_MOVING
        return not activities.each or starts or advances

    def _starts(self, activity: RankActivity) -> bool:
        """Whether a process or a worker of its loader imports modules, or has not run for as long as a pause may be."""
        began = activity.process.started_at if activity.process is not None else None
        young = began is not None and time.time() - began < self.stall_detector.patience()
        return activity.imports or (young and not activity.joined)

    def _unseen(self, evidence: Evidence) -> list[int]:
        """The ranks on other nodes of which nothing is known here, once the job trains: one of them may be at work."""
        size = evidence.one(JobSize)
        if size is None or not (self.nodes.reports and self.nodes.has_others and self.stall_detector.stepped):
            return []
        return sorted({*range(size.ranks)} - {facts.rank for facts in evidence.ranks})


def _at_work(activities: Activities) -> tuple[int, ...]:
    """The ranks that others wait for and that show what a rank of a healthy job could show."""
    return tuple(activity.rank for activity in activities.elsewhere if activity.shows_life)


def _is_crowded() -> bool:
    """Whether so many processes want this host's processors that one that works may look as if it did nothing."""
    return os.getloadavg()[0] > CROWDED * (os.cpu_count() or 1)


def _begun(ranks: tuple[RankProcess, ...]) -> Begun:
    return tuple((agent.pid, agent.header.written, agent.header.forwards, agent.header.steps) for agent in ranks)


def _begun_in_training(ranks: tuple[RankProcess, ...]) -> Begun:
    headers = ((agent.pid, agent.header) for agent in ranks)
    return tuple((pid, header.written_in_training, header.forwards, header.steps) for pid, header in headers)


def _failed(agent: RankProcess) -> bool:
    return agent.error() is not None or _died(agent)


def _died(agent: RankProcess) -> bool:
    return agent.left_at() is None and not is_alive(agent.pid)


def _signs(ranks: tuple[RankProcess, ...]) -> Begun:
    return (*_begun(ranks), tuple(agent.header.returned for agent in ranks))


def _signs_of_training(ranks: tuple[RankProcess, ...]) -> Begun:
    return (*_begun_in_training(ranks), tuple(agent.header.returned_in_training for agent in ranks))


def _elsewhere(activities: Activities, unseen: list[int]) -> str:
    """`ranks 2-3 wait for others; there is no evidence of ranks 0-1 on other nodes`."""
    waiting = [activity.rank for activity in activities.waiting]
    wait = verb(waiting, "waits", "wait")
    return f"{group_ranks(waiting)} {wait} for others; there is no evidence of {group_ranks(unseen)} on other nodes"


def _busy(activities: Activities) -> str:
    """`rank 0 is busy in evaluate() (eval.py:40, on CPU 97 %), ranks 1-3 wait for it`."""
    first = next(activity for activity in activities.elsewhere if activity.shows_life)
    facts = [f"{first.place.file}:{first.place.line}"] if first.place is not None else []
    if first.process is not None and first.process.cpu_share is not None:
        facts.append(f"on CPU {100 * first.process.cpu_share:.0f} %")
    where = f" in {first.place.function}()" if first.place is not None else ""
    waiting = [activity.rank for activity in activities.waiting]
    wait = verb(waiting, "waits", "wait")
    busy = "busy" if first.joined else "busy before joining,"
    return f"rank {first.rank} is {busy}{where} ({', '.join(facts)}), {group_ranks(waiting)} {wait} for it"

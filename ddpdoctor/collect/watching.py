"""Follows a running job until it ends, and says when it stands still, waits for a busy rank, goes on, crawls, and ends."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from ddpdoctor.analysis.doing import Doings
from ddpdoctor.analysis.doing import derive as doings_of
from ddpdoctor.collect.agents import RankProcess, find_ranks
from ddpdoctor.collect.crawling import CODES, crawling
from ddpdoctor.collect.job_evidence import JobEvidence
from ddpdoctor.collect.other_nodes import OtherNodes
from ddpdoctor.collect.processes import is_alive
from ddpdoctor.collect.quiet_moves import QuietMoves
from ddpdoctor.collect.stall import Rhythm
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.pace import Looks
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.ranks import JobSize
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.model import group_ranks

POLL_SECONDS = 0.2
PACE_SECONDS = 60.0  # of steps before a running job is asked whether it crawls; then after four times as many
SETTLED_SECONDS = 3.0  # from a call that comes back with an error to the rank's last word on a busy machine
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

# of each rank its process, and how many calls, forwards and steps it has begun
Begun: TypeAlias = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class _Stirred:
    """A sign of life `at` some time, after a standstill of `quiet` seconds."""

    at: float
    quiet: float


@dataclass(slots=True)
class Watch:
    """One job under observation: what is `known` of it, its `rhythm`, and the `nodes` on which the rest of it runs."""

    known: JobEvidence
    rhythm: Rhythm
    nodes: OtherNodes = field(default_factory=OtherNodes)
    pace_after: float = PACE_SECONDS
    _stall: Evidence | None = None
    _begun: Begun = ()
    _stirred: _Stirred | None = None
    _next_look: float = 0.0
    _looks: int = 0
    _stepping_since: float | None = None

    def events(self) -> Iterator[Event]:
        """What happens to the job, until it has ended."""
        known, moves = self.known, QuietMoves()
        while (code := known.job.wait(POLL_SECONDS)) is None:
            ranks = find_ranks(known.directory)
            known.memory.observe(agent.pid for agent in ranks)
            self.nodes.beat(ranks)
            now = time.monotonic()
            quiet = self.rhythm.quiet(now)
            stepped = bool(ranks) and all(agent.header.steps for agent in ranks)
            moved = self.rhythm.observe((_signs(ranks), moves.seen(ranks, quiet)), now, stepped=stepped)
            if moved and self._stall is None:
                self._next_look = 0.0
                self.nodes.goes_on()
            elif moved:
                self._stirred = self._stirred or _Stirred(now, quiet)
            if self._goes_on(ranks, now):
                yield self._recovered()
            if moved:
                yield from self._pace(ranks, now, stepped=stepped)
            elif self._stall is not None and self.nodes.deserted():
                yield Deserted()
            elif ranks and quiet >= max(self._next_look, self.rhythm.patience()):
                yield from self._look(ranks, quiet)
        if code == 0 and self._stirred is not None:
            yield self._recovered()
        known.job.drain()
        ended = known.at_the_end(code, self._stall)
        yield Ended(code, self.nodes.at_the_end(ended, code, self._stall if known.killed_at is not None else None))

    def _goes_on(self, ranks: tuple[RankProcess, ...], now: float) -> bool:
        """Whether a job that stood still has begun something new, or calls of it came back without the end of any rank.

        Where peers time out or die, calls come back with an error: that is how a standstill ends a job, and no way out of it.
        """
        if self._stirred is None:
            return False
        if _begun(ranks) != self._begun:
            return True
        return now - self._stirred.at > SETTLED_SECONDS and not any(_failed(agent) for agent in ranks)

    def _recovered(self) -> Recovered:
        assert self._stirred is not None
        self.nodes.goes_on()
        quiet = self._stirred.quiet
        self._stall, self._stirred, self._looks, self._next_look = None, None, 0, 0.0
        self.known.notes.append(f"the job stood still for {quiet:.1f} s and went on by itself")
        return Recovered(quiet)

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
                self.known.looks = {
                    facts.rank: fact for facts in found.ranks for fact in facts.facts if isinstance(fact, Looks)
                }
                yield Crawling(found)

    def look_again(self) -> float:
        """Ask for another look at the same pause, as the last one explained nothing; returns in how many seconds."""
        seconds = self.rhythm.patience()
        self._next_look = self.rhythm.quiet(time.monotonic()) + seconds
        return seconds

    def _look(self, ranks: tuple[RankProcess, ...], quiet: float) -> Iterator[Event]:
        evidence = self.known.while_it_stands_still(ranks, quiet, self.rhythm.patience())
        evidence = self.nodes.at_a_standstill(evidence, quiet)
        processes = evidence.per_rank(ProcessState)
        doings = doings_of(processes, evidence.per_rank(Stacks), None) if processes is not None else Doings(each=())
        working = [doing for doing in doings.elsewhere if doing.moves]
        unseen = [] if doings.elsewhere else self._unseen(evidence)
        if not doings.waiting and not any(doing.moves is False for doing in doings.elsewhere):
            self._next_look = quiet + self.rhythm.patience()
        elif (working or unseen) and quiet < self.rhythm.patience(moving=True):
            self._next_look = quiet + self.rhythm.patience()
            yield Waiting(_busy(doings) if working else _elsewhere(doings, unseen))
        else:
            self._stall, self._begun, self._next_look = evidence, _begun(ranks), math.inf
            self._looks += 1
            yield Stalled(evidence, quiet, last=self._looks == MOST_LOOKS)

    def _unseen(self, evidence: Evidence) -> list[int]:
        """The ranks on other nodes of which nothing is known here, once the job trains: one of them may be at work."""
        size = evidence.one(JobSize)
        if size is None or not (self.nodes.speaks and self.nodes.has_others and self.rhythm.stepped):
            return []
        return sorted({*range(size.ranks)} - {facts.rank for facts in evidence.ranks})


def _begun(ranks: tuple[RankProcess, ...]) -> Begun:
    return tuple((agent.pid, agent.header.written, agent.header.forwards, agent.header.steps) for agent in ranks)


def _failed(agent: RankProcess) -> bool:
    return agent.error() is not None or (agent.left_at() is None and not is_alive(agent.pid))


def _signs(ranks: tuple[RankProcess, ...]) -> Begun:
    return (*_begun(ranks), tuple(agent.header.returned for agent in ranks))


def _elsewhere(doings: Doings, unseen: list[int]) -> str:
    """`ranks 2-3 wait for others, and nothing is known here of ranks 0-1, on other nodes`."""
    waiting = [doing.rank for doing in doings.waiting]
    verb = "wait" if len(waiting) > 1 else "waits"
    return (
        f"{group_ranks(waiting)} {verb} for others, and nothing is known here of {group_ranks(unseen)}, on other nodes"
    )


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

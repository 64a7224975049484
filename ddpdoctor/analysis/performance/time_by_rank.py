"""Where the time of a step goes on each rank: its data, its own work, and the wait for the rank that comes last."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.performance.stragglers import BATCH_PHASE, LEAST_ROUNDS, Rounds, phase_seconds, rounds_of
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.evidence.step_times import Pace
from ddpdoctor.model import SkipCheck


@dataclass(frozen=True, slots=True, kw_only=True)
class RankTime:
    """What one rank spends its time on: medians, in seconds a round."""

    rank: int
    """The rank whose time it is."""
    host: str
    """The host with whose ranks it was compared."""
    data: float | None
    """Until its batch was there; None where nothing shows it."""
    work: float
    """On its own, until it reached the round's first collective."""
    waits: float
    """From there until the last rank of its host came."""
    last_in: float
    """The share of the rounds in which it came last."""
    late: float
    """By how much it was behind the first."""


@dataclass(frozen=True, slots=True)
class TimeByRank:
    """One entry per rank of a host on which several ranks met in enough rounds, in order of rank."""

    each: tuple[RankTime, ...]
    """In order of rank."""
    rounds: int
    """The fewest rounds of a host."""


def derive(records: PerRank[FlightRecord], paces: PerRank[Pace] | None) -> TimeByRank:
    """The times of every rank.

    Raises:
        SkipCheck: no host has several ranks that met in enough rounds.
    """
    marks = by_rank(paces)
    hosts = [
        (host, rounds)
        for host, known in records.by_host().items()
        if host and len(known) > 1 and (rounds := rounds_of(known)) is not None
    ]
    if not hosts:
        raise SkipCheck(f"no host has two ranks that met in {LEAST_ROUNDS} rounds of collectives")
    found = [time for host, rounds in hosts for time in _times(host, rounds, marks)]
    return TimeByRank(
        each=tuple(sorted(found, key=lambda time: time.rank)), rounds=min(len(rounds.released) for _, rounds in hosts)
    )


def _times(host: str, rounds: Rounds, marks: dict[int, Pace]) -> list[RankTime]:
    import numpy as np

    last, first = rounds.arrived.max(axis=0), rounds.arrived.min(axis=0)
    found = []
    for number, rank in enumerate(rounds.ranks):
        arrived = rounds.arrived[number]
        phases = phase_seconds(marks[rank], arrived, rounds.released) if rank in marks else {}
        data = phases.get(BATCH_PHASE)
        alone = float(np.median(arrived - rounds.released)) / 1e9
        found.append(
            RankTime(
                rank=rank,
                host=host,
                data=data,
                work=max(0.0, alone - (data or 0.0)),
                waits=float(np.median(last - arrived)) / 1e9,
                last_in=float((arrived == last).mean()),
                late=float(np.median(arrived - first)) / 1e9,
            )
        )
    return found

"""Which ranks of a benchmark take far longer than their peers for the same work of their own, round after round."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ddpdoctor.evidence.bench import BenchRank, CollectiveBench
from ddpdoctor.grouping import grouped
from ddpdoctor.model import SkipCheck

FEWEST_RANKS = 3  # of two that differ there is no majority
SLOW = 2.5  # times the median: processors of one healthy job differ by a half, a shared one takes twice as long
MOST_OFTEN = 0.8  # of the rounds: on a busy machine ranks take turns at losing their processor


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowHost:
    """The slow ranks of one host."""

    host: str
    """Its host name."""
    ranks: tuple[int, ...]
    """Its slow ranks, sorted."""
    times: float
    """How many times the median rank's time they take, by the median over ranks and rounds."""
    slow_in: int
    """In how many rounds each of them was slow at least."""
    on_cpu: float | None
    """The CPU time of these ranks divided by the time in which they worked, 0 to 1; None on a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnWork:
    """The hosts with slow ranks in a benchmark."""

    rounds: int
    """How often each rank did the same work."""
    hosts: tuple[SlowHost, ...]
    """One per host that has slow ranks."""


def derive(bench: CollectiveBench) -> OwnWork:
    """The slow ranks by host, where the ranks' own work was measured.

    Raises:
        SkipCheck: there are too few ranks.
    """
    seconds = [rank.work_seconds for rank in bench.ranks]
    if len(seconds) < FEWEST_RANKS or not all(seconds):
        raise SkipCheck(f"{len(seconds)} ranks: at least {FEWEST_RANKS} are needed to say which one is slow")
    by_host = grouped((bench.ranks[rank].host, rank) for rank in slow_ranks(seconds))
    times = ratios(seconds)
    return OwnWork(
        rounds=len(seconds[0]),
        hosts=tuple(
            SlowHost(
                host=host,
                ranks=tuple(ranks),
                times=median(median(times[rank]) for rank in ranks),
                slow_in=min(_slow_in(times[rank]) for rank in ranks),
                on_cpu=_on_cpu([bench.ranks[rank] for rank in ranks]),
            )
            for host, ranks in by_host.items()
        ),
    )


def slow_ranks(seconds: Sequence[Sequence[float]]) -> tuple[int, ...]:
    """The slow ranks, from each one's seconds in each round."""
    return tuple(rank for rank, own in enumerate(ratios(seconds)) if _slow_in(own) >= MOST_OFTEN * len(own))


def ratios(seconds: Sequence[Sequence[float]]) -> list[list[float]]:
    """How many times the median rank's time each rank takes, round by round."""
    majority = [median(together) for together in zip(*seconds, strict=True)]
    return [[mine / theirs for mine, theirs in zip(own, majority, strict=True)] for own in seconds]


def _slow_in(times: Sequence[float]) -> int:
    return sum(each >= SLOW for each in times)


def _on_cpu(ranks: Sequence[BenchRank]) -> float | None:
    if ranks[0].device != "cpu":
        return None
    return sum(sum(rank.work_on_cpu) for rank in ranks) / sum(sum(rank.work_seconds) for rank in ranks)

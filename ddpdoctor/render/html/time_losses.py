"""Where ranks lose time in each step: waiting for data, working alone, waiting for the last rank."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.analysis.performance.time_by_rank import RankTime, TimeByRank
from ddpdoctor.derivation import Deriver
from ddpdoctor.model import Report, group_ranks

SHOWN_RANKS = 128
OPEN_RANKS = 12  # the others are folded; of more ranks those that come last the most often stand first
ARRIVE_TOGETHER_MS = 0.1
SLOW = ("DDP601", "DDP602")
WIDTH = 420  # pixels of the longest bar


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One rank, in milliseconds per round."""

    rank: int
    """The rank whose time it is."""
    host: str
    """The host with whose ranks it was compared."""
    data: float | None
    """Until its batch was there; None where that is not known."""
    work: float
    """Until it reached the first collective."""
    waits: float
    """Until the last rank came."""
    last_in: float
    """In how many percent of the rounds it was last."""
    late: float
    """By how much it was behind the first."""
    latest: bool
    """Whether a finding names it as the slow one."""
    widths: tuple[float, float, float]
    """The widths of data, work and waits, in pixels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSection:
    """One bar per rank."""

    bars: tuple[Bar, ...]
    """Those that are shown."""
    folded: tuple[Bar, ...]
    """Those out of sight until somebody unfolds them."""
    rounds: int
    """How many rounds were recorded."""
    has_data: bool
    """Whether any rank recorded when its batches came."""
    more: int
    """How many ranks have no bar."""
    sentence: str
    """What the picture shows, for readers who do not see it."""
    width: int = WIDTH
    """The width of the longest bar, in pixels."""


def time_section(report: Report, derive: Deriver) -> TimeSection | None:
    """The bars; None where too few rounds of collectives were recorded."""
    times = derive(TimeByRank)
    if times is None:
        return None
    latest = {rank for finding in report.findings if finding.code in SLOW for rank in finding.ranks}
    longest = max((_sum(time) for time in times.each), default=0.0) or 1.0
    shown = times.each
    if len(shown) > OPEN_RANKS:
        shown = tuple(sorted(shown, key=lambda time: (time.rank not in latest, -time.last_in)))
    bars = tuple(_bar(time, time.rank in latest, longest) for time in shown[:SHOWN_RANKS])
    most = max(times.each, key=lambda time: (time.last_in, time.late))
    return TimeSection(
        bars=bars[:OPEN_RANKS],
        folded=bars[OPEN_RANKS:],
        rounds=times.rounds,
        has_data=any(bar.data is not None for bar in bars),
        more=max(0, len(times.each) - SHOWN_RANKS),
        sentence=_sentence(most, times.rounds),
    )


def _sentence(most: RankTime, rounds: int) -> str:
    if 1e3 * most.late < ARRIVE_TOGETHER_MS:
        return f"The ranks reach {rounds} rounds of collectives together."
    return (
        f"{group_ranks([most.rank])} is last into {100 * most.last_in:.0f} % of {rounds} rounds, {1e3 * most.late:.1f} ms "
        "(median) behind the first rank."
    )


def _sum(time: RankTime) -> float:
    return (time.data or 0.0) + time.work + time.waits


def _bar(time: RankTime, latest: bool, longest: float) -> Bar:
    data, work, waits = (round(WIDTH * part / longest, 1) for part in (time.data or 0.0, time.work, time.waits))
    return Bar(
        rank=time.rank,
        host=time.host,
        data=None if time.data is None else 1e3 * time.data,
        work=1e3 * time.work,
        waits=1e3 * time.waits,
        last_in=100 * time.last_in,
        late=1e3 * time.late,
        latest=latest,
        widths=(data, work, waits),
    )

"""One rank comes to nearly every collective after all others, or is far slower at the same work: all wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.lateness import Late, Lateness
from ddpdoctor.analysis.own_work import OwnWork, SlowHost
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.pace import Looks, Pace
from ddpdoctor.evidence.process import Stall
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks

RULE = Rule(
    code="DDP601",
    name="straggler-rank",
    summary="one rank is slower than its peers at every step, and they wait for it",
    severity=Severity.WARN,
    remedy="look at what only this rank does there (logging, checks, another disk or device); `ddpdoctor hang` shows its stack "
    "while the job runs, `ddpdoctor env` whether its host or GPU is held down",
)

HELD_BACK = "look on that host for what else runs there (`top`) and for a CPU quota (`cat /sys/fs/cgroup/cpu.max`)"
SLOW_CLOCK = "look on that host for lowered clocks (`cpupower frequency-info`) and heat, or leave it out"
ON_GPU = "look on that host with `ddpdoctor env` and `nvidia-smi -q -d PERFORMANCE` for what holds its GPU down"

MOST_OFTEN = 0.8  # of the rounds: ranks that take turns at being last have uneven samples, not a slow rank
LEAST_SHARE = 0.1  # of the time of all other ranks
OFTEN = 0.3  # of the looks: a line that holds a rank up is seen about as often as the share of the time that it takes
LEAST_SECONDS = 0.002  # a round: below, a busy machine's scheduler decides who is last
LEAST_LOST_SECONDS = 0.5  # in all: of two processes that share a processor, one may be favoured for some tenths of it
HELD = 0.7  # of the time: a rank that has its processor for less waits for it; above, the processor itself is slow


def check(
    lateness: Lateness | None,
    paces: PerRank[Pace] | None,
    looks: PerRank[Looks] | None,
    stall: Stall | None,
    work: OwnWork | None,
) -> Iterator[Finding]:
    """One finding for each host on which the same rank is last nearly always and for long, or ranks are slow at their own work.

    Of a job that stands still nothing is said: why it does comes first.
    """
    if lateness is None and work is None:
        raise SkipCheck("neither the steps of a job nor the own work of three ranks of a benchmark was watched")
    if work is not None:
        yield from (_slow_at_work(host, work.rounds) for host in work.hosts)
    forwards = {entry.rank: entry.value.forward for entry in paces or ()}
    seen = {entry.rank: entry.value for entry in looks or ()}
    for late in lateness.hosts if lateness is not None and stall is None else ():
        if _is_slow(late):
            yield RULE.finding(
                f"rank {late.rank} comes to {late.last_in} of {late.rounds} meetings {late.seconds * 1e3:.0f} ms after the last "
                f"of its peers, who spend {100 * late.share:.0f} % of their time waiting for it{_lost(late)}",
                ranks=(late.rank,),
                where=_where(late, seen.get(late.rank), forwards.get(late.rank)),
                seconds_late=late.seconds,
                share=late.share,
                rounds=late.rounds,
                last_in=late.last_in,
                phase=late.phase,
            )


def _is_slow(late: Late) -> bool:
    return (
        late.last_in >= MOST_OFTEN * late.rounds
        and late.share >= LEAST_SHARE
        and late.seconds >= LEAST_SECONDS
        and late.seconds * late.last_in >= LEAST_LOST_SECONDS
    )


def _slow_at_work(slow: SlowHost, rounds: int) -> Finding:
    held = "" if slow.on_cpu is None else f"; on a processor for {slow.on_cpu:.0%} of that"
    return RULE.finding(
        f"{group_ranks(slow.ranks)} on {slow.host}: {slow.times:.1f} times the median rank's time for the same work with nobody "
        f"to wait for, in {slow.slow_in} of {rounds} rounds{held}",
        ranks=slow.ranks,
        hosts=(slow.host,),
        remedy=ON_GPU if slow.on_cpu is None else HELD_BACK if slow.on_cpu < HELD else SLOW_CLOCK,
        times=slow.times,
        rounds=rounds,
        slow_in=slow.slow_in,
        on_cpu=slow.on_cpu,
    )


def _where(late: Late, looks: Looks | None, forward: Frame | None) -> tuple[Where, ...]:
    """The line at which the rank was seen most often, or else the fixed point of its steps."""
    if looks is not None and looks.places and looks.times[0] >= OFTEN * looks.of:
        place, note = looks.places[0], f"here at {looks.times[0]} of {looks.of} looks"
    elif forward is not None:
        place, note = forward, "the forward of each step" + (f"; late {late.phase}" if late.phase else "")
    else:
        return ()
    return (Where.at(place, rank=late.rank, note=note),)


def _lost(late: Late) -> str:
    if late.phase is None or late.phase_seconds is None:
        return ""
    return f"; it loses {late.phase_seconds * 1e3:.0f} ms {late.phase}"

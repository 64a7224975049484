"""One rank reaches nearly every collective after all others, or is far slower at the same work: all wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.performance.local_compute import OwnWork, SlowHost
from ddpdoctor.analysis.performance.stragglers import LEAST_ROUNDS, Straggler, Stragglers
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.step_times import Looks, Pace
from ddpdoctor.messages import samples
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks

RULE = Rule(
    code="DDP601",
    name="straggler-rank",
    summary="one rank is slower than its peers at every step, and they wait for it",
    severity=Severity.WARN,
    shown_by="`ddpdoctor watch` shows one rank last into most collectives",
    remedy="check what only this rank does there (logging, checks, another disk or device); `ddpdoctor hang` shows its "
    "stack while the job runs, `ddpdoctor env` shows whether its host or GPU is slowed down",
)

HELD_BACK = "check what else runs on that host (`top`), and its CPU quota (`cat /sys/fs/cgroup/cpu.max`)"
SLOW_CLOCK = "check that host for reduced clocks (`cpupower frequency-info`) and heat, or exclude it"
ON_GPU = "check that host for reduced GPU clocks with `ddpdoctor env` and `nvidia-smi -q -d PERFORMANCE`"

MOST_OFTEN = 0.8  # of the rounds: ranks that take turns at being last have uneven samples, not a slow rank
OF_THE_WAITS = (
    0.9  # of the time that ranks wait for one alone: a rank may be slow from some step on, or from time to time
)
LEAST_SHARE = 0.1  # of the time of all other ranks
LEAST_SECONDS = 0.002  # a round: below, a busy machine's scheduler decides who is last
CROWDED = (
    0.5  # of its delay: a rank that waits for a processor for so long is slow by where it runs, not by what it does
)
LEAST_QUEUED = 0.02  # of the time: a host with a processor for every thread lets none wait
IN_ONE_ROUND = 0.25  # of its delay in a step: a busy scheduler makes a rank a little late into each of many calls
LEAST_LOST_SECONDS = 0.5  # in all: of two processes that share a processor, one may be favoured for some tenths of it
HELD = 0.7  # of the time: a rank that has its processor for less waits for it; above, the processor itself is slow


def check(
    stragglers: Stragglers | None,
    paces: PerRank[Pace] | None,
    looks: PerRank[Looks] | None,
    stall: Stall | None,
    work: OwnWork | None,
) -> Iterator[Finding]:
    """One finding for each host on which the same rank is last nearly always and for long, or ranks are slow at their own work.

    A stalled job gets no finding: the cause of the stall comes first. Neither does a rank that waits for a processor longer
    than its peers, and is late by that, nor one that waits for a processor for as long as its peers wait for it: where all
    ranks do, the scheduler decides who is last, and for long the same one.
    """
    if stragglers is None and work is None:
        raise SkipCheck("no step times of a job and no local compute times of three benchmark ranks")
    if work is not None:
        yield from (_slow_at_work(host, work.rounds) for host in work.hosts)
    forwards = {entry.rank: entry.value.forward for entry in paces or ()}
    seen = by_rank(looks)
    for straggler in stragglers.hosts if stragglers is not None and stall is None else ():
        if _is_slow(straggler):
            yield RULE.finding(
                f"rank {straggler.rank} is last into {straggler.last_in} of {straggler.rounds} {straggler.counted}, "
                f"{straggler.seconds * 1e3:.0f} ms behind; its peers wait {100 * straggler.share:.0f} % of their "
                f"time{_lost(straggler)}",
                ranks=(straggler.rank,),
                where=_where(straggler, seen.get(straggler.rank), forwards.get(straggler.rank)),
                seconds_late=straggler.seconds,
                share=straggler.share,
                rounds=straggler.rounds,
                last_in=straggler.last_in,
                phase=straggler.phase,
            )


def _is_slow(straggler: Straggler) -> bool:
    often = straggler.last_in >= MOST_OFTEN * straggler.rounds
    return (
        (often or (straggler.of_the_waits >= OF_THE_WAITS and straggler.last_in >= LEAST_ROUNDS))
        and straggler.share >= LEAST_SHARE
        and straggler.seconds >= LEAST_SECONDS
        and straggler.seconds * straggler.last_in >= LEAST_LOST_SECONDS
        and straggler.crowded < CROWDED * straggler.share
        and straggler.queued < straggler.share
        and not (straggler.in_one_round < IN_ONE_ROUND and straggler.queued >= LEAST_QUEUED)
    )


def _slow_at_work(slow: SlowHost, rounds: int) -> Finding:
    held = "" if slow.on_cpu is None else f"; scheduled on a CPU {100 * slow.on_cpu:.0f} % of the time"
    return RULE.finding(
        f"{group_ranks(slow.ranks)} on {slow.host}: {slow.times:.1f}x the median for identical local compute in "
        f"{slow.slow_in} of {rounds} rounds{held}",
        ranks=slow.ranks,
        hosts=(slow.host,),
        remedy=ON_GPU if slow.on_cpu is None else HELD_BACK if slow.on_cpu < HELD else SLOW_CLOCK,
        times=slow.times,
        rounds=rounds,
        slow_in=slow.slow_in,
        on_cpu=slow.on_cpu,
    )


def _where(straggler: Straggler, looks: Looks | None, forward: Frame | None) -> tuple[Where, ...]:
    """The lines at which the rank was seen often, or else the fixed point of its steps."""
    seen = samples.seen_often(straggler.rank, looks)
    if seen or forward is None:
        return seen
    late = f"; late {straggler.phase}" if straggler.phase else ""
    return (Where.at(forward, rank=straggler.rank, note=f"the forward of each step{late}"),)


def _lost(straggler: Straggler) -> str:
    if straggler.phase is None or straggler.phase_seconds is None:
        return ""
    return f"; it loses {straggler.phase_seconds * 1e3:.0f} ms {straggler.phase}"

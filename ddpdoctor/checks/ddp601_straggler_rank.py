"""One rank comes to nearly every collective after all others, which wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from ddpdoctor.analysis.lateness import Late, Lateness
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.pace import Pace
from ddpdoctor.evidence.process import Stall
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where

RULE = Rule(
    code="DDP601",
    name="straggler-rank",
    summary="one rank is slower than its peers at every step, and they wait for it",
    severity=Severity.WARN,
    remedy="look at what only this rank does there (logging, checks, another disk or device); `ddpdoctor hang` shows its stack "
    "while the job runs, `ddpdoctor env` whether its host or GPU is held down",
)

MOST_OFTEN = 0.8  # of the rounds: ranks that take turns at being last have uneven samples, not a slow rank
LEAST_SHARE = 0.1  # of the time of all other ranks
LEAST_SECONDS = 0.002  # a round: below, a busy machine's scheduler decides who is last


def check(lateness: Lateness, paces: PerRank[Pace] | None, stall: Stall | None) -> Iterator[Finding]:
    """One finding for each host on which the same rank is last nearly always and for long."""
    if stall is not None:
        raise SkipCheck("the job stands still: why it does comes first")
    lines = {entry.rank: entry.value.forward for entry in paces or ()}
    for late in lateness.hosts:
        if late.last_in >= MOST_OFTEN * late.rounds and late.share >= LEAST_SHARE and late.seconds >= LEAST_SECONDS:
            yield RULE.finding(
                f"rank {late.rank} comes to {late.last_in} of {late.rounds} meetings {late.seconds * 1e3:.0f} ms after the last "
                f"of its peers, who spend {100 * late.share:.0f} % of their time waiting for it{_lost(late)}",
                ranks=(late.rank,),
                where=_where(late, lines.get(late.rank)),
                seconds_late=late.seconds,
                share=late.share,
                rounds=late.rounds,
                last_in=late.last_in,
                phase=late.phase,
            )


def _where(late: Late, forward: Frame | None) -> tuple[Where, ...]:
    if forward is None:
        return ()
    note = "the forward of each step" + (f"; late {late.phase}" if late.phase else "")
    return (Where(rank=late.rank, file=forward.file, line=forward.line, function=forward.function, note=note),)


def _lost(late: Late) -> str:
    if late.phase is None or late.phase_seconds is None:
        return ""
    return f"; it loses {late.phase_seconds * 1e3:.0f} ms {late.phase}"

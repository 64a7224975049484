"""Ranks gave up waiting in a collective, and nothing tells why: said only where no better cause is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.timeline import Timeline
from ddpdoctor.analysis.watchdog import Watchdogs
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.model import Finding, Rule, Severity, Where, group_ranks

TIMED_OUT = re.compile(
    r"Timed out waiting (?P<gloo>\d+)ms for (?:recv|send) operation"
    r"|Watchdog caught collective operation timeout.*?Timeout\(ms\)=(?P<nccl>\d+)"
    r"|wait timeout after (?P<store>\d+)ms",
    re.DOTALL,
)

RULE = Rule(
    code="DDP408",
    name="collective-timed-out",
    summary="ranks waited in a collective until its timeout ran out, and the evidence does not tell for whom",
    severity=Severity.FAIL,
    remedy="run it again under `ddpdoctor watch --stall-after 60`, which looks at every rank while it hangs",
)


def check(exits: PerRank[RankExit], timeline: Timeline | None, watchdogs: Watchdogs | None) -> Iterator[Finding]:
    """One finding for all ranks whose own error is a timeout; the culprits are those that never came, where that is known."""
    timed_out = {}
    for entry in exits:
        text = entry.value.error.message if entry.value.error is not None else "\n".join(entry.value.tail)
        found = TIMED_OUT.search(text)
        if found is not None:
            timed_out[entry.rank] = (entry.value, int(next(filter(None, found.groups()))) / 1000)
    if timed_out:
        absent = _absent(timeline, watchdogs)
        _, seconds = next(iter(timed_out.values()))
        never = f"; {group_ranks(absent)} never came" if absent else ""
        yield RULE.finding(
            f"{group_ranks([*timed_out])} gave up waiting in a collective after {seconds:g} s{never}",
            ranks=absent,
            where=[where for rank, (ending, _) in timed_out.items() if (where := _where(rank, ending)) is not None],
            details=[*_by_call(watchdogs)] if watchdogs is not None and timeline is None else (),
            timed_out=[*timed_out],
            timeout_seconds=seconds,
        )


def _absent(timeline: Timeline | None, watchdogs: Watchdogs | None) -> Sequence[int]:
    if timeline is not None:
        return sorted({rank for group in timeline.groups for rank in group.behind})
    return watchdogs.behind() if watchdogs is not None else ()


def _by_call(watchdogs: Watchdogs) -> Iterator[str]:
    yield f"by the words of NCCL's watchdogs they gave up: {'; '.join(watchdogs.told())}"
    if watchdogs.silent and len(watchdogs.silent) < len(watchdogs.gave_up):
        yield (
            f"the watchdog of {group_ranks(watchdogs.silent)} said nothing: this call was never made there, or the launcher was "
            "faster; its dump or its stack would tell"
        )


def _where(rank: int, ending: RankExit) -> Where | None:
    place = users_frame(ending.error.stack) if ending.error is not None else None
    if place is None:
        return None
    return Where(rank=rank, file=place.file, line=place.line, function=place.function, note="timed out here")

"""Ranks gave up waiting in a collective, and nothing tells why: said only where no better cause is known."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.absence import MOVING_SECONDS
from ddpdoctor.analysis.doing import Doings
from ddpdoctor.analysis.timeline import GroupTimeline, Timeline
from ddpdoctor.analysis.watchdog import Watchdogs
from ddpdoctor.analysis.wording import names, unplaced, verb, witnesses
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks

TIMED_OUT = re.compile(
    r"Timed out waiting (?P<gloo>\d+)ms for (?:recv|send) operation"
    r"|Watchdog caught collective operation timeout.*?Timeout\(ms\)=(?P<nccl>\d+)"
    r"|wait timeout after (?P<store>\d+)ms"
    r"|Ranks? [\d, ]+ failed to pass monitoredBarrier in (?P<barrier>\d+) ms",
    re.DOTALL,
)
_LATE_FOR_A_BARRIER = re.compile(r"Ranks? ([\d, ]+) failed to pass monitoredBarrier")
_STOOD_STILL = "a call into CUDA or NCCL does not return there, or a thread does not let go of the GIL"

RULE = Rule(
    code="DDP408",
    name="collective-timed-out",
    summary="ranks waited in a collective until its timeout ran out, and the evidence does not tell for whom",
    severity=Severity.FAIL,
    remedy="run it again under `ddpdoctor watch --stall-after 60`, which looks at every rank while it hangs",
)


def check(
    exits: PerRank[RankExit] | None, timeline: Timeline | None, watchdogs: Watchdogs | None, doings: Doings | None
) -> Iterator[Finding]:
    """One finding for all ranks whose own error is a timeout; the culprits are those that never came, where that is known.

    Where there are dumps alone, and not of all ranks: that the others wait, and that it is open what those do.
    """
    if exits is None and timeline is None:
        raise SkipCheck("no RankExit and no FlightRecord: nobody saw a rank end, and there is no dump")
    if exits is None and doings is None and timeline is not None:
        yield from _without_a_dump(timeline)
    timed_out = {}
    late: set[int] = set()
    for entry in exits or ():
        text = entry.value.error.message if entry.value.error is not None else "\n".join(entry.value.tail)
        found = TIMED_OUT.search(text)
        if found is not None:
            timed_out[entry.rank] = (entry.value, int(next(filter(None, found.groups()))) / 1000)
        if (
            entry.rank == 0
        ):  # whom all ranks tell that they have come; another group's first rank counts in its group's numbers
            late.update(int(rank) for told in _LATE_FOR_A_BARRIER.findall(text) for rank in re.findall(r"\d+", told))
    if timed_out:
        absent = sorted({*_absent(timeline, watchdogs), *late})
        _, seconds = next(iter(timed_out.values()))
        after = max(1, min(60, int(seconds / 2)))  # well before the timeout ends the job again
        never = f"; {group_ranks(absent)} never came" if absent else ""
        yield RULE.finding(
            f"{group_ranks([*timed_out])} gave up waiting in a collective after {seconds:g} s{never}",
            ranks=absent,
            where=[where for rank, (ending, _) in timed_out.items() if (where := _where(rank, ending)) is not None],
            details=[*_by_call(watchdogs)] if watchdogs is not None and timeline is None else (),
            remedy=RULE.remedy.replace("--stall-after 60", f"--stall-after {after}"),
            timed_out=[*timed_out],
            timeout_seconds=seconds,
        )
    elif watchdogs is not None and watchdogs.stood_still:
        still = watchdogs.stood_still
        yield RULE.finding(
            f"NCCL's monitor ended {group_ranks(still)}: {verb(still, 'its watchdog', 'their watchdogs')} came no further",
            details=[_STOOD_STILL],
            stood_still=still,
        )


def _without_a_dump(timeline: Timeline) -> Iterator[Finding]:
    """The call that every rank with a dump has waited in the longest, where other members left none."""
    waited = [group for group in timeline.groups if _all_but_the_unrecorded_wait(group)]
    if waited:
        group = min(waited, key=lambda group: min(made.created_ns for made in group.open.values()))
        unknown = [rank for rank in group.members if rank not in group.recorded]
        yield RULE.finding(
            f"{group_ranks(group.recorded)} {verb(group.recorded, 'waits', 'wait')} in {names(group.open, group.open)}, and "
            f"{group_ranks(unknown)} left no dump",
            where=witnesses(group.open, group.recorded),
            details=unplaced(group.open, group.recorded),
            remedy=f"give the dump or the log of {group_ranks(unknown)} as well: without them it is open whether "
            f"{verb(unknown, 'it never came, or died, or waits there too', 'they never came, or died, or wait there too')}",
            without_dump=unknown,
        )


def _all_but_the_unrecorded_wait(group: GroupTimeline) -> bool:
    ages = [made.seconds for made in group.open.values() if made.seconds is not None]
    return (
        group.lane.told
        and len(group.recorded) < len(group.members)
        and {*group.open} == {*group.recorded}
        and {made.seq for made in group.open.values()} == {group.awaited}
        and not group.clashes
        and (not ages or max(ages) >= MOVING_SECONDS)
    )


def _absent(timeline: Timeline | None, watchdogs: Watchdogs | None) -> Sequence[int]:
    if timeline is not None:
        return sorted({rank for group in timeline.groups for rank in group.behind})
    return watchdogs.behind() if watchdogs is not None else ()


def _by_call(watchdogs: Watchdogs) -> Iterator[str]:
    yield f"by the words of NCCL's watchdogs they gave up: {'; '.join(watchdogs.told())}"
    if watchdogs.together:
        yield (
            "none of these came late: a rank that the log does not show never made this call, or, if there is none, the network "
            "or a GPU does not carry it (`ddpdoctor net`, `ddpdoctor env`)"
        )
    if watchdogs.stood_still:
        yield f"the watchdog of {group_ranks(watchdogs.stood_still)} came no further itself: {_STOOD_STILL}"
    if watchdogs.silent and len(watchdogs.silent) < len(watchdogs.gave_up):
        yield (
            f"the watchdog of {group_ranks(watchdogs.silent)} said nothing: this call was never made there, or the launcher was "
            "faster; its dump or its stack would tell"
        )


def _where(rank: int, ending: RankExit) -> Where | None:
    place = users_frame(ending.error.stack) if ending.error is not None else None
    if place is None:
        return None
    return Where.at(place, rank=rank, note="timed out here")

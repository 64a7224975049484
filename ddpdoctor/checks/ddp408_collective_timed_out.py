"""Ranks gave up waiting in a collective, and nothing tells why: said only where no better cause is known."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.crashes.horovod_stalls import HorovodStall
from ddpdoctor.analysis.crashes.nccl_watchdog import Watchdogs
from ddpdoctor.analysis.crashes.own_ends import ended_by_themselves
from ddpdoctor.analysis.hangs.rank_activity import Activities
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import users_frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.messages.collectives import names, unplaced, witnesses
from ddpdoctor.messages.skipped import NO_DUMP_AND_NO_EXIT
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, Where, group_ranks, verb

TIMED_OUT = re.compile(
    r"Timed out waiting (?P<gloo>\d{1,15})ms for (?:recv|send) operation"
    r"|(?:Watchdog caught collective operation timeout|\] Work WorkNCCL).{0,400}?Timeout\(ms\)=(?P<nccl>\d{1,15})"
    r"|wait timeout after (?P<store>\d{1,15})ms"
    r"|Ranks? [\d, ]+ failed to pass monitoredBarrier in (?P<barrier>\d{1,15}) ms",
    re.DOTALL,
)
_LATE_FOR_A_BARRIER = re.compile(r"Ranks? ([\d, ]{1,4000}) failed to pass monitoredBarrier")
_WITHOUT_A_DUMP = (Reason.MISSING, Reason.OLDER, Reason.RECORDED_NOTHING)
_STOOD_STILL = "a call into CUDA or NCCL does not return there, or a thread does not let go of the GIL"

RULE = Rule(
    code="DDP408",
    name="collective-timed-out",
    summary="ranks waited in a collective until its timeout ran out, and the evidence does not tell for whom",
    severity=Severity.FAIL,
    shown_by="only timeouts are in the logs: dumps, `ddpdoctor watch` or the logs of all ranks show the rank "
    "that did not come",
    remedy="run it again under `ddpdoctor watch --stall-after 60`, which looks at every rank while it hangs",
)


def check(
    exits: PerRank[RankExit] | None,
    timeline: Timeline | None,
    watchdogs: Watchdogs | None,
    activities: Activities | None,
    graph: WaitForGraph | None,
    horovod: HorovodStall | None = None,
) -> Iterator[Finding]:
    """One finding for all ranks whose own error is a timeout; the culprits are those that never came, where that is known.

    Where there are dumps alone, and not of all ranks: that the others wait, and that it is open what those do.
    """
    if horovod is not None and timeline is None:
        yield _by_horovod(horovod)
        return
    if exits is None and timeline is None:
        raise SkipCheck(NO_DUMP_AND_NO_EXIT)
    if activities is None and graph is not None and graph.reason in _WITHOUT_A_DUMP:
        if ended_by_themselves(exits).isdisjoint(graph.ranks):
            yield _without_a_dump(graph, timeline.of_earlier_runs if timeline is not None else ())
        return
    ends = by_rank(exits)
    timed_out = {rank: seconds for rank, end in ends.items() if (seconds := _timeout_seconds(end)) is not None}
    by_log_alone = timeline is None and activities is None
    if timed_out:
        absent = sorted({*_absent(timeline, graph, watchdogs), *_late_for_a_barrier(ends)} - _came(watchdogs))
        seconds = next(iter(timed_out.values()))
        after = max(1, min(60, int(seconds / 2)))  # well before the timeout ends the job again
        never = f"; {group_ranks(absent)} never came" if absent else ""
        gave_up = sorted({*timed_out, *(watchdogs.gave_up if watchdogs is not None else ())})
        yield RULE.finding(
            f"{group_ranks(gave_up)} gave up waiting in {_call(watchdogs)} after {seconds:g} s{never}",
            severity=Severity.WARN if by_log_alone and not absent else None,
            ranks=absent,
            where=[
                *(where for rank in absent if (where := _ended_in(rank, ends.get(rank))) is not None),
                *(where for rank in timed_out if (where := _where(rank, ends[rank])) is not None),
            ],
            details=[*_by_call(watchdogs)] if watchdogs is not None and timeline is None else (),
            remedy=RULE.remedy.replace("--stall-after 60", f"--stall-after {after}"),
            timed_out=gave_up,
            timeout_seconds=seconds,
        )
    elif watchdogs is not None and watchdogs.stood_still:
        yield _by_heartbeat_monitor(watchdogs.stood_still, by_log_alone=by_log_alone)
    elif watchdogs is not None and watchdogs.told_of:
        yield _by_hearsay(watchdogs.told_of, by_log_alone=by_log_alone)


def _text(end: RankExit) -> str:
    return end.error.message if end.error is not None else "\n".join(end.tail)


def _timeout_seconds(end: RankExit) -> float | None:
    """The timeout that the rank's error names; None where its error is another one."""
    found = TIMED_OUT.search(_text(end))
    return int(next(filter(None, found.groups()))) / 1000 if found is not None else None


def _late_for_a_barrier(ends: Mapping[int, RankExit]) -> set[int]:
    """The ranks that rank 0 names as late for a monitored barrier of the default group.

    The first rank of another group counts its members by their numbers in that group.
    """
    listed = _LATE_FOR_A_BARRIER.findall(_text(ends[0])) if 0 in ends else []
    return {int(rank) for ranks in listed for rank in re.findall(r"\b\d{1,9}\b", ranks)}


def _by_heartbeat_monitor(stuck: Sequence[int], *, by_log_alone: bool) -> Finding:
    return RULE.finding(
        f"NCCL's heartbeat monitor aborted {group_ranks(stuck)}: "
        f"{verb(stuck, 'its watchdog thread was', 'their watchdog threads were')} stuck",
        severity=Severity.WARN if by_log_alone else None,
        details=[_STOOD_STILL],
        stood_still=stuck,
    )


def _by_horovod(stall: HorovodStall) -> Finding:
    missed = (
        f"; {group_ranks(stall.ranks)} did not come" if stall.ranks else ", and in other operations for other ranks"
    )
    whom = f"{group_ranks(stall.ranks)} {verb(stall.ranks, 'does', 'do')}" if stall.ranks else "each rank does"
    return RULE.finding(
        f"Horovod waits in {stall.op}{missed}",
        severity=None if stall.ranks else Severity.WARN,
        ranks=stall.ranks,
        remedy=f"look at what {whom} instead: `py-spy dump --pid PID`, or a run under `ddpdoctor watch --stall-after 60`",
    )


def _by_hearsay(ranks: Sequence[int], *, by_log_alone: bool) -> Finding:
    return RULE.finding(
        f"{group_ranks(ranks)} gave up waiting in a collective that the logs do not name",
        severity=Severity.WARN if by_log_alone else None,
        remedy=f"give the log and the dump of {group_ranks(ranks)} as well, which name the collective; else {RULE.remedy}",
        timed_out=ranks,
    )


def _call(watchdogs: Watchdogs | None) -> str:
    """The call that all watchdogs name, or `a collective`."""
    names = {one.name for one in watchdogs.gave_up.values()} if watchdogs is not None else set()
    return names.pop() if len(names) == 1 else "a collective"


def _came(watchdogs: Watchdogs | None) -> set[int]:
    """The ranks whose watchdogs all name one call: they were in it, also where a record without DDP's own calls lacks it."""
    gave_up = watchdogs.gave_up if watchdogs is not None else {}
    return {*gave_up} if len({(one.group, one.name) for one in gave_up.values()}) == 1 else set()


def _without_a_dump(graph: WaitForGraph, of_earlier_runs: Collection[int]) -> Finding:
    """The ranks without a dump of this time that all others wait for: they died, ended, could not write it, or record nothing."""
    awaited = [*graph.awaiting(graph.ranks)]
    waiting = {rank: call for operation, _ in awaited for rank, call in operation.waiting.items()}
    unknown = graph.ranks
    missing = unknown if graph.reason is Reason.MISSING else ()
    empty = [rank for rank in unknown if rank in graph.recorded_nothing]
    older = [rank for rank in unknown if rank not in missing and rank not in empty]
    last = graph.last_calls() if older else {}
    left = []
    earlier = [rank for rank in missing if rank in of_earlier_runs]
    if len(missing) > len(earlier):
        left.append(f"{group_ranks([rank for rank in missing if rank not in earlier])} left no dump")
    if earlier:
        left.append(f"the dump of {group_ranks(earlier)} is of an earlier run")
    if last:
        ends = verb(older, "ends", "end")
        left.append(f"the dump of {group_ranks(older)} is from before that and {ends} with {names(last, last)}")
    elif older:
        left.append(f"the dump of {group_ranks(older)} shows nothing of that time")
    if empty:
        left.append(
            f"the {verb(empty, 'dump', 'dumps')} of {group_ranks(empty)} {verb(empty, 'holds', 'hold')} no call"
        )
    recorder = (
        f". Set TORCH_FR_BUFFER_SIZE above 0 there: the recorder of {group_ranks(empty)} kept nothing" if empty else ""
    )
    return RULE.finding(
        f"{group_ranks([*waiting])} {verb([*waiting], 'waits', 'wait')} in "
        f"{' and '.join(operation.name for operation, _ in awaited)}, and {' and '.join(left)}",
        ranks=unknown,
        where=[*witnesses(last, unknown), *witnesses(waiting, sorted(waiting))],
        details=[*graph.details(), *unplaced(waiting, sorted(waiting))],
        remedy=f"see whether {group_ranks(unknown)} died: its log, its exit code, the kernel's log of its host (out of memory, "
        f"Xid). If {verb(unknown, 'it', 'they')} left a {'later ' if older else ''}dump or a log elsewhere, give that as well: "
        f"without it is open whether {verb(unknown, 'it never came, or', 'they never came, or')} died, or "
        f"{verb(unknown, 'waits', 'wait')} there too{recorder}",
        without_dump=[*missing],
        older_dump=older,
        empty_dump=empty,
        waiting=[*graph.waiting],
    )


def _absent(timeline: Timeline | None, graph: WaitForGraph | None, watchdogs: Watchdogs | None) -> Sequence[int]:
    if graph is not None and len(timeline.groups if timeline is not None else ()) > 1:
        return graph.ranks if graph.reason in (Reason.IDLE, Reason.LEFT_OUT) else ()
    if timeline is not None:
        return sorted({rank for group in timeline.groups for rank in group.behind})
    return watchdogs.behind() if watchdogs is not None else ()


def _by_call(watchdogs: Watchdogs) -> Iterator[str]:
    yield f"NCCL watchdog timeouts: {'; '.join(watchdogs.sentences())}"
    if watchdogs.together:
        yield (
            "every logged rank reached this call: a rank missing from the log never issued it, or the network or a GPU "
            "is stuck (`ddpdoctor net`, `ddpdoctor env`)"
        )
    if watchdogs.stood_still:
        yield f"the watchdog of {group_ranks(watchdogs.stood_still)} was stuck itself: {_STOOD_STILL}"
    for rank, last in watchdogs.not_joined.items():
        yield f"rank {rank} finished call {last} and did not come to the next one, as torch says itself"
    for rank in watchdogs.behind():
        group, seq = watchdogs.reached.get(rank, ("", None))
        if seq is not None:
            yield f"rank {rank} had called #{seq} of {group} last when it heard of the timeout"
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


def _ended_in(rank: int, ending: RankExit | None) -> Where | None:
    """Where a rank that never came was when the launcher was about to end it, because others had given up."""
    place = users_frame(ending.ended_in) if ending is not None else None
    return Where.at(place, rank=rank, note="was here when its launcher ended it") if place is not None else None

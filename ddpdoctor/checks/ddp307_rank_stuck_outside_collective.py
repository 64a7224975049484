"""A rank sleeps, waits for a lock, a file, a connection or a subprocess, or computes, while its peers wait for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ddpdoctor.analysis.crashes import dead_threads
from ddpdoctor.analysis.crashes.own_ends import ended_by_themselves
from ddpdoctor.analysis.crashes.retry_loops import caught_in_a_loop
from ddpdoctor.analysis.hangs import other_threads
from ddpdoctor.analysis.hangs.blocking_ranks import Hang
from ddpdoctor.analysis.hangs.callers import called_in
from ddpdoctor.analysis.hangs.rank_activity import Activities, RankActivity
from ddpdoctor.analysis.hangs.short_waits import seconds_so_far
from ddpdoctor.analysis.hangs.stack_patterns import Activity
from ddpdoctor.analysis.hangs.wait_for_graph import Reason, WaitForGraph
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame, is_users, users_frames
from ddpdoctor.evidence.process import Stall
from ddpdoctor.evidence.ranks import RankExit, ThreadErrors
from ddpdoctor.evidence.source import CodePlace, Loop, SourceCode, place_of
from ddpdoctor.evidence.stacks import Stacks
from ddpdoctor.messages.collectives import OF_A_YOUNG_DUMP, duration, names, witnesses
from ddpdoctor.model import Finding, Rule, Severity, SkipCheck, group_ranks, verb

REMEDIES = {
    Activity.SLEEP: "take the sleep out, or let every rank sleep",
    Activity.LOCK: "find who holds the lock: a thread of this rank that waits for another lock, or that ended with it",
    Activity.LOCK_FILE: "see which process builds the extension; where none does, a run that was killed left the file `lock` in "
    "its build directory (~/.cache/torch_extensions, or TORCH_EXTENSIONS_DIR): delete it",
    Activity.HANDOVER: "look at the other end (of the queue, the event, the pool): what should hand it over or take it waits "
    "itself, or has ended",
    Activity.FILE: "see whether the file system answers on that host (`ls` the path there), and read it before training",
    Activity.PIPE: "look at the program at the other end of the pipe: it never opened it, neither writes nor reads, or has ended",
    Activity.SOCKET: "give the connection a timeout, and see whether the other end answers from that host",
    Activity.SUBPROCESS: "look at the subprocess, and give the wait for it a timeout",
    Activity.STORE: "see which rank should set this key, and whether it does, under the same name and in the same store",
    Activity.COMPUTING: "see whether this code ends; where it is meant to take so long, share the work among the ranks, or raise "
    "the timeout of the group that the others wait in",
}
OF_A_LOOP = (
    "see why this condition does not become true on this rank: what it asks for (a file, a flag) has another name, or no rank "
    "makes it; give the loop a deadline"
)
OF_ALL_ASLEEP = "see what all ranks wait for at this line, and take the sleep out or make it shorter"
OF_TRIES = (
    "see why what this loop tries fails on this rank each time (a lock file that an earlier run left, a server, a file); give "
    "the loop a largest number of tries"
)
OF_WORK = (
    "nothing, where this rank alone evaluates or saves a checkpoint: it is at work. Where it goes on too long, look again: "
    "`ddpdoctor hang` in a minute, or `ddpdoctor watch` from the start"
)
OF_A_LOCK = (
    "release the lock before the collective: call the collective outside of the `with` block, as the ranks that wait for the "
    "lock cannot reach it"
)
OF_A_DUMP = "look at what this rank does behind its last call: `ddpdoctor hang` shows it while it hangs"
OF_FEW = "look at both sides: `ddpdoctor hang` shows them while they hang; most ranks may be right not to call it"
OUTSIDE = (*REMEDIES, Activity.IMPORTING, Activity.UNKNOWN)

RULE = Rule(
    code="DDP307",
    name="rank-stuck-outside-collective",
    summary="a rank does something of its own and does not come to the collective that its peers wait in",
    severity=Severity.FAIL,
    shown_by="`ddpdoctor hang` shows one rank in the user's own code while the others wait in a collective",
    remedy="let every rank come to the collective: look at the line that this rank is in",
    explains=("DDP314", "DDP408"),
)


def check(
    hang: Hang | None,
    activities: Activities | None,
    graph: WaitForGraph | None,
    exits: PerRank[RankExit] | None,
    errors: PerRank[ThreadErrors] | None,
    stacks: PerRank[Stacks] | None,
    code: SourceCode | None,
    stall: Stall | None,
) -> Iterator[Finding]:
    """One finding for all ranks that are kept by the same kind of thing; without stacks, where they were last."""
    if hang is not None:
        yield from _by_stacks(hang, errors, stacks, code)
        if not hang.elsewhere:
            yield from _by_locks(hang)
    elif graph is None:
        raise SkipCheck(
            "no rank waits for another one, and there is no flight-recorder dump"
            if activities
            else "no stacks and no flight-recorder dump"
        )
    elif (
        activities is None
        and graph.reason is Reason.IDLE
        and not graph.only_point_to_point
        and ended_by_themselves(exits).isdisjoint(graph.ranks)
    ):
        yield _by_recorders(graph, alone=exits is None and stall is None)


def _by_recorders(graph: WaitForGraph, *, alone: bool) -> Finding:
    """`alone` says that nothing but the dumps tells whether the job hung."""
    awaited = [*graph.awaiting(graph.ranks)]
    waiting = {rank: call for operation, _ in awaited for rank, call in operation.waiting.items()}
    last = graph.last_calls()
    last_call = f"; the last that {verb(graph.ranks, 'it', 'they')} called was {names(last, last)}" if last else ""
    young = seconds_so_far(graph) if alone else None
    waited = f" for {duration(young)} so far" if young is not None else ""
    few_wait = len(graph.ranks) > len({*graph.waiting} - {*graph.ranks})
    either = (
        f"; the dumps do not tell whether {group_ranks([*waiting])} alone should have called it" if few_wait else ""
    )
    return RULE.finding(
        f"{group_ranks(graph.ranks)} did not come to {' and '.join(operation.name for operation, _ in awaited)}, in which "
        f"{group_ranks([*waiting])} {verb([*waiting], 'waits', 'wait')}{waited}{last_call}{either}",
        severity=Severity.INFO if young is not None else None,
        ranks=sorted({*graph.ranks, *waiting}) if few_wait else graph.ranks,
        where=[*witnesses(last, graph.ranks), *witnesses(waiting, sorted(waiting))],
        details=graph.details(),
        remedy=OF_A_YOUNG_DUMP if young is not None else OF_FEW if few_wait else OF_A_DUMP,
        waiting=[*graph.waiting],
    )


def _by_locks(hang: Hang) -> Iterator[Finding]:
    """One finding for each rank that holds a file lock and waits in a collective for ranks that wait for the lock."""
    for (holder, path), held_up in hang.locks.items():
        ranks = [one.rank for one in held_up]
        yield RULE.finding(
            f"{hang.who([holder])} holds a lock ({path}) while it waits in {holder.operation or 'a collective'}; "
            f"{hang.who(held_up)} {verb(ranks, 'waits', 'wait')} for this lock and cannot reach the collective",
            ranks=[holder.rank],
            where=hang.where([holder]),
            remedy=OF_A_LOCK,
            activity=Activity.LOCK.value,
            waiting=[one.rank for one in hang.waiting if one is not holder],
            seconds=hang.seconds,
        )


def _calls_from_another_file(culprits: Sequence[RankActivity], stacks: PerRank[Stacks] | None) -> Iterator[str]:
    """`rank 3 is in read, called in samples (train.py:59)`: a line of a helper does not say what the program wanted."""
    looked = by_rank(stacks)
    for one in culprits:
        threads = looked[one.rank].threads if one.rank in looked else ()
        ways = (users_frames(thread.frames) for thread in threads if thread.main)
        lines = next((way for way in ways if way and way[-1] == one.place), ())
        if len({frame.file for frame in lines}) > 1:
            yield f"rank {one.rank} is in {lines[-1].function}{called_in(lines)}"


def _ended_children(culprits: Sequence[RankActivity]) -> list[str]:
    """`process 123, which rank 1 started, has ended`: of ranks that wait for what another process should hand over."""
    waiting = [
        culprit
        for culprit in culprits
        if culprit.kind in {Activity.HANDOVER, Activity.PIPE} and culprit.process is not None
    ]
    return [
        f"process {child.pid}, which rank {one.rank} started, has ended"
        for one in waiting
        for child in (one.process.children if one.process is not None else ())
        if child.state == "Z"
    ]


def _asleep_at(culprits: Sequence[RankActivity], code: SourceCode | None) -> CodePlace | None:
    """The line at which all of them sleep."""
    places = {culprit.place for culprit in culprits if culprit.kind is Activity.SLEEP}
    place = next(iter(places)) if len(places) == 1 else None
    return place_of(code, place)


def _polls(culprits: Sequence[RankActivity], code: SourceCode | None) -> Loop | None:
    """The loop in which all of them sleep until something is so, where they sleep in one that does nothing else."""
    known = _asleep_at(culprits, code)
    return known.loops[-1] if known is not None and known.loops and known.loops[-1].awaits else None


def _may_be_endless(culprits: Sequence[RankActivity], stacks: PerRank[Stacks] | None, code: SourceCode | None) -> bool:
    """Whether one of them computes in a `while` without counting: nothing bounds it, unlike a `for`. Or sleeps in any loop.

    What a rank counts that sleeps in a loop, also in a function that one calls, may be how often it has looked for something.
    """
    if code is None:
        return False
    asleep = {culprit.rank: culprit.place for culprit in culprits if culprit.kind is Activity.SLEEP}
    if any(_is_in_a_loop(entry.value, asleep[entry.rank], code) for entry in stacks or () if entry.rank in asleep):
        return True
    turns = (culprit for culprit in culprits if culprit.kind is Activity.COMPUTING and not culprit.counts)
    known = [code.at(one.place.file, one.place.line) for one in turns if one.place is not None]
    return any(one is not None and one.loops and one.loops[-1].head.startswith("while ") for one in known)


def _is_in_a_loop(stacks: Stacks, place: Frame | None, code: SourceCode) -> bool:
    """Whether a loop is around this line, or around a line of the user's own from which it was called, at any look."""
    ways = [*(thread.frames for thread in stacks.threads if place in thread.frames), *stacks.seen]
    known = (code.at(frame.file, frame.line) for way in ways for frame in way if is_users(frame.file))
    return any(one is not None and one.loops for one in known)


def _by_stacks(
    hang: Hang, errors: PerRank[ThreadErrors] | None, stacks: PerRank[Stacks] | None, code: SourceCode | None
) -> Iterator[Finding]:
    for activity in OUTSIDE:
        culprits = hang.culprits(activity)
        if culprits:
            died = dead_threads.of_ranks(errors, [activity.rank for activity in culprits])
            loop = _polls(culprits, code)
            caught = caught_in_a_loop(_asleep_at(culprits, code))
            until = f" until `{loop.awaits}`" if loop is not None else ""
            until += f" after `{caught}`, in a loop that tries again" if caught else ""
            at_work = (
                hang.may_go_on(culprits) and not died and loop is None and not _may_be_endless(culprits, stacks, code)
            )
            of_a_loop = OF_A_LOOP if loop is not None else OF_TRIES if caught else None
            usual = OF_ALL_ASLEEP if activity is Activity.SLEEP and not hang.waiting else REMEDIES.get(activity)
            remedy = of_a_loop or (OF_WORK if at_work else usual)
            yield RULE.finding(
                f"{hang.said_of(culprits)}{until}; {hang.wait_for(culprits)}",
                severity=Severity.INFO if at_work else None,
                ranks=[activity.rank for activity in culprits],
                where=[*dead_threads.where(died), *hang.where(culprits)],
                details=[
                    *dead_threads.sentences(died),
                    *_calls_from_another_file(culprits, stacks),
                    *other_threads.sentences(culprits, stacks),
                    *_ended_children(culprits),
                ],
                remedy=dead_threads.REMEDY if died else remedy,
                activity=activity.value,
                waiting=[activity.rank for activity in hang.waiting],
                seconds=hang.seconds,
                moves=culprits[0].moves,
            )

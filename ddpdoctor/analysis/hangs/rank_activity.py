"""What each rank of a job does, by its stack, the state of its process and the calls that it is in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.hangs.movement import advanced, counts_up, movement, receives, stays
from ddpdoctor.analysis.hangs.stack_patterns import (
    BACKWARD,
    NEVER_HEALTHY,
    WAITS_FOR_PEERS,
    Activity,
    activity_in_stack,
    imports,
    joins_a_thread,
    turns_an_event_loop,
)
from ddpdoctor.analysis.hangs.thread_activity import thread_activity, thread_that_matters
from ddpdoctor.analysis.hangs.users_line import (
    ASKS_A_COLLECTIVE,
    asks_for_input,
    asks_the_store,
    polls_a_call,
    waited_for,
)
from ddpdoctor.evidence import PerRank, by_rank
from ddpdoctor.evidence.frames import Frame, users_frame
from ddpdoctor.evidence.launch import Joining
from ddpdoctor.evidence.process import A_NAMED_PIPE, ProcessState
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks, Thread

IDLE_SHARE = 0.05  # of one CPU: above what waiting takes, below what a collective takes that goes on slowly
MOST_SHOWN = 60  # characters of a command line

# `work.wait()` of an asynchronous collective, and CUDA's spinning in `loss.item()`, leave no frame above the user's line
_MAY_BE_A_WAIT = frozenset({Activity.COMPUTING, Activity.LOCK, Activity.UNKNOWN})
_POLLING = frozenset({Activity.COMPUTING, Activity.SLEEP})
_ABOUT_SOMETHING = frozenset({Activity.FILE, Activity.SOCKET, Activity.LOCK, Activity.UNINTERRUPTIBLE})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankActivity:
    """What one rank does."""

    rank: int
    """The rank whose process was looked at."""
    kind: Activity
    """What its main thread does: waits for peers, for a lock, for data, or computes."""
    operation: str
    """The call that it is in, such as `all_reduce #31`; empty where none is known."""
    place: Frame | None
    """The innermost line of the user's own code."""
    moves: bool | None
    """Whether it was elsewhere in a later snapshot, used a CPU, or read or wrote; None where there is only one snapshot.

    A rank that waits for its peers may use a CPU for that: of such a rank only the line counts.
    """
    moved: bool
    """Whether it was elsewhere in a later snapshot, whatever it does."""
    process: ProcessState | None
    """The state of its process."""
    native: str = ""
    """The C function on top of its stack, where it was asked for."""
    native_stack: tuple[str, ...] = ()
    """That function and those below it."""
    spins: bool = False
    """Whether its thread is on a CPU."""
    joined: bool = True
    """False for a process of the launch that has not called `init_process_group`."""
    advanced: bool = False
    """Whether it has left a line to which no loop leads back."""
    holder: int | None = None
    """The rank whose process holds the file lock, or has the other end of the pipe, that it waits for."""
    counts: bool = False
    """Whether a number that the user's functions count changed between two snapshots: it makes progress, also at one line."""
    others_work: bool = False
    """Whether another thread of the user's was at work between two snapshots."""
    gives_work_away: bool = False
    """Whether its main thread waits for a thread to end, or in an event loop."""
    receives: bool = False
    """Whether a wait for a connection or in an event loop came to an end between two snapshots."""

    @property
    def description(self) -> str:
        """What it does, in words: `sleeps`, `waits for a file (read of /mnt/data/x)`, `computes before it joins`."""
        return self._kind_and_object() + ("" if self.joined else " before it joins")

    def _kind_and_object(self) -> str:
        state = self.process
        if self.kind is Activity.PIPE and state is not None:
            known = state.waits_on or ""
            if state.system_call in {"open", "openat"} and known:
                known = f"{A_NAMED_PIPE} {known}"
            named = f" of {known}" if known.startswith(A_NAMED_PIPE) else ""
            toward = "from" if state.system_call == "read" else "to"
            return f"{self.kind.value} ({state.system_call}{named}){self._counterpart(f' {toward} ')}"
        if self.kind in _ABOUT_SOMETHING and state is not None and state.waits_on:
            held = self._counterpart(", held by ") if self.kind is Activity.LOCK else ""
            return f"{self.kind.value} ({state.system_call} of {state.waits_on}{held})"
        return self.kind.value

    def _counterpart(self, introduction: str) -> str:
        """`, held by rank 0`, ` to process 123 (tee log.txt)`; empty where nobody is known, or several are."""
        if self.holder is not None:
            return f"{introduction}rank {self.holder}"
        known = self.process.counterparts if self.process is not None else ()
        if len(known) != 1:
            return ""
        program, _, arguments = known[0].command.partition(" ")
        command = f"{PurePath(program).name} {arguments}".strip()
        shown = command if len(command) <= MOST_SHOWN else f"{command[:MOST_SHOWN]}..."
        return f"{introduction}process {known[0].pid} ({shown})"

    @property
    def shows_life(self) -> bool:
        """Whether it shows what a rank of a healthy job could show: it moves, or it prepares and has not joined yet."""
        return self.moves is True or (not self.joined and self.kind not in NEVER_HEALTHY)

    @property
    def imports(self) -> bool:
        """Whether it imports modules, or waits for a worker of its data loader that does."""
        workers = self.process.children if self.process is not None and self.kind is Activity.DATA_LOADER else ()
        return self.kind is Activity.IMPORTING or any(
            imports(worker.stack) for worker in workers if worker.kind == "data loader worker"
        )

    @property
    def stands_still(self) -> bool:
        """Whether nothing of it moved between two snapshots: a rank whose collective goes on slowly uses some of a CPU.

        That is so where other threads than the one that waits move the data. One that spins uses a CPU in any case.
        """
        share = self.process.cpu_share if self.process is not None else None
        return self.moves is False and (self.spins or share is None or share < IDLE_SHARE)

    @property
    def waits_for_peers(self) -> bool:
        """Whether it is the others that this rank waits for."""
        return self.kind in WAITS_FOR_PEERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Activities:
    """What every rank that could be looked at is doing, in order of rank."""

    each: tuple[RankActivity, ...]
    """One per rank, in order of rank."""

    @property
    def waiting(self) -> tuple[RankActivity, ...]:
        """The ranks that wait for their peers."""
        return tuple(activity for activity in self.each if activity.waits_for_peers)

    @property
    def elsewhere(self) -> tuple[RankActivity, ...]:
        """The ranks that do something else."""
        return tuple(activity for activity in self.each if not activity.waits_for_peers)

    def of(self, *activities: Activity) -> tuple[RankActivity, ...]:
        """The ranks that do one of these."""
        return tuple(activity for activity in self.each if activity.kind in activities)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Observed:
    """What is known of one rank before anything is concluded from it."""

    rank: int
    stacks: Stacks | None
    process: ProcessState | None
    open_call: str | None
    """The call that its recorder shows outstanding; None where others wait for this rank."""
    recorded: bool
    """Whether there is a recorder of it."""
    joined: bool
    holder: int | None


def derive(
    processes: PerRank[ProcessState],
    stacks: PerRank[Stacks] | None,
    timeline: Timeline | None,
    code: SourceCode | None = None,
    joining: PerRank[Joining] | None = None,
) -> Activities:
    """Each rank's activity; a rank of which only one of the two is known is judged by that one.

    A rank whose recorder holds an outstanding collective waits in it, whatever CPU it uses: NCCL's ranks spin.
    """
    of_rank = by_rank(stacks)
    states = by_rank(processes)
    absent = {entry.rank for entry in joining or () if not entry.value.called}
    ranks = {(entry.host, entry.value.pid): entry.rank for entry in processes}
    holders = {
        entry.rank: holder
        for entry in processes
        for other in entry.value.counterparts
        if len(entry.value.counterparts) == 1 and (holder := ranks.get((entry.host, other.pid))) is not None
    }
    observed = (
        _Observed(
            rank=rank,
            stacks=of_rank.get(rank),
            process=states.get(rank),
            open_call=_open_call(timeline, rank),
            recorded=timeline is not None and rank in timeline.call_index.records,
            joined=rank not in absent,
            holder=holders.get(rank),
        )
        for rank in sorted(of_rank.keys() | states.keys())
    )
    return Activities(each=tuple(_rank_activity(seen, code) for seen in observed))


def _open_call(timeline: Timeline | None, rank: int) -> str | None:
    """The collective that the recorder shows this rank waiting in, unless it is a rank that others wait for."""
    if timeline is not None and timeline.transfers(rank):
        return "a send or receive"
    if timeline is None or any(rank in group.behind for group in timeline.groups):
        return None
    call = timeline.waiting(rank)
    return call.op if call is not None else None


def _rank_activity(seen: _Observed, code: SourceCode | None) -> RankActivity:
    stacks, process = seen.stacks, seen.process
    thread = thread_that_matters(stacks, process)
    main = stacks.main.frames if stacks is not None and stacks.main is not None else ()
    kind, operation, place = _activity(seen, thread, code)
    change = movement(kind, stacks, thread, process, code)
    return RankActivity(
        rank=seen.rank,
        kind=kind,
        operation=operation,
        place=place,
        moves=change.moves,
        moved=change.moved,
        process=process,
        native=thread.native[0] if thread and thread.native else "",
        native_stack=thread.native if thread else (),
        spins=thread is not None and thread.active,
        joined=seen.joined,
        advanced=advanced(stacks, code),
        holder=seen.holder,
        counts=counts_up(stacks, code),
        others_work=stacks is not None and stacks.others_work,
        gives_work_away=joins_a_thread(main) or turns_an_event_loop(main),
        receives=receives(kind, main, process),
    )


def _activity(seen: _Observed, thread: Thread | None, code: SourceCode | None) -> tuple[Activity, str, Frame | None]:
    """What a rank does, the call that it is in and the user's line, by all that is known of it."""
    stacks = seen.stacks
    frames = thread.frames if thread else ()
    place = users_frame(frames)
    kind, operation = _shown_by_line(*thread_activity(stacks, thread, seen.process), frames, code)
    if seen.open_call is not None and _may_be_a_wait(kind, operation, stacks, code):
        return Activity.COLLECTIVE, BACKWARD if operation == BACKWARD else seen.open_call, place
    if seen.recorded:
        return kind, operation, place
    still = stays(stacks, code)
    if kind is Activity.COMPUTING and still and operation == BACKWARD:
        return (
            Activity.COLLECTIVE,
            BACKWARD,
            place,
        )  # on a GPU it spins there; only a recorder shows whether it computes
    if kind in _POLLING and stacks is not None and polls_a_call(stacks, code, (ASKS_A_COLLECTIVE,)):
        return Activity.COLLECTIVE, ASKS_A_COLLECTIVE, place
    waits = waited_for(kind, frames, code, stays=still and not counts_up(stacks, code))
    return waits if waits is not None else (kind, operation, place)


def _shown_by_line(
    kind: Activity, operation: str, frames: Sequence[Frame], code: SourceCode | None
) -> tuple[Activity, str]:
    """The activity of a thread, more exactly where the user's innermost line shows it."""
    if kind in {Activity.FILE, Activity.PIPE} and operation == "read" and asks_for_input(frames, code):
        return Activity.HUMAN, "input"  # a launcher has put a pipe in the place of the keyboard
    if kind is Activity.COMPUTING and imports(frames):
        return Activity.IMPORTING, operation
    if kind in {Activity.UNKNOWN, Activity.SOCKET} and asks_the_store(frames, code):
        return Activity.STORE, operation
    return kind, operation


def _may_be_a_wait(kind: Activity, operation: str, stacks: Stacks | None, code: SourceCode | None) -> bool:
    """Whether a rank that does this may wait for the collective that its recorder shows outstanding."""
    activity = activity_in_stack(stacks.main.frames) if stacks is not None and stacks.main is not None else None
    if kind is Activity.SLEEP:
        return stacks is not None and polls_a_call(stacks, code)
    return kind in _MAY_BE_A_WAIT and (activity is None or operation == BACKWARD)

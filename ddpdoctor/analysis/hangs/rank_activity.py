"""What each rank of a job is doing: told from its stack, the state of its process and the calls it sits in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePath

from ddpdoctor.analysis.collectives.timeline import Timeline
from ddpdoctor.analysis.hangs.stack_patterns import (
    BACKWARD,
    Activity,
    imports,
    joins_a_thread,
    told_by_stack,
    turns_an_event_loop,
    works_for_an_executor,
)
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, runs_users_code, users_frame
from ddpdoctor.evidence.launch import Joining
from ddpdoctor.evidence.process import A_NAMED_PIPE, A_PIPE, ProcessState
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks, Thread

BUSY_SHARE = 0.2  # of one CPU: a rank that waits uses 0.00 to 0.02, with gloo's and OpenMP's threads
IDLE_SHARE = 0.05  # of one CPU: above what waiting takes, below what a collective takes that goes on slowly
MOST_SHOWN = 60  # characters of a command line
MOVED_BYTES = 1 << 16  # a second: a rank that reads or writes a file does more, one that waits does none

NEVER_HEALTHY = frozenset({Activity.STOPPED, Activity.HUMAN})

WAITS_IN_ONE_CALL = "futex"  # the system call of a condition variable, which a finished collective notifies
OPENS_A_NAMED_PIPE = "wait_for_partner"  # the kernel's function in which an open of a FIFO waits for the other end
OWN_END = "the interpreter's own end"

# `work.wait()` of an asynchronous collective, and CUDA's spinning in `loss.item()`, leave no frame above the user's line
_MAY_BE_A_WAIT = frozenset({Activity.COMPUTING, Activity.LOCK, Activity.UNKNOWN})
_ASKS_THE_DEVICE = frozenset({"item", "cpu", "tolist", "numpy", "synchronize"})
UNKNOWN_CALL = "an asynchronous call"
ASKS_A_COLLECTIVE = "is_completed"
_ASKS_A_CALL = (ASKS_A_COLLECTIVE, "query", "done")
_RECEIVES = frozenset({"read", "recvfrom", "recvmsg", "poll", "ppoll", "sendto", "sendmsg", "write"})
_POLLING = frozenset({Activity.COMPUTING, Activity.SLEEP})
_ABOUT_SOMETHING = frozenset({Activity.FILE, Activity.SOCKET, Activity.LOCK, Activity.UNINTERRUPTIBLE})
_ASKS_THE_STORE = re.compile(
    r"(?:^|\.|\b(?:c10d|tcp|file|hash|prefix)_?)_?(?:default_)?store\.(?:get|wait|multi_get)$", re.IGNORECASE
)
_READS_A_VALUE = frozenset(  # of what the store gives, or makes what it is asked with
    {"int", "float", "str", "bool", "print", "loads", "decode", "timedelta", "format", "join", "range", "list"}
)
_ASKS = frozenset({"input", "sys.stdin.readline", "sys.stdin.read", "getpass.getpass"})
WAITS_FOR_PEERS = frozenset({Activity.COLLECTIVE, Activity.DEVICE, Activity.RENDEZVOUS})


@dataclass(frozen=True, slots=True, kw_only=True)
class RankActivity:
    """One rank's activity. `operation` is the call that it sits in, `place` the innermost line of the user's own code.

    `native` is the C function on top, where it was asked for, `native_stack` those below it, too.
    `moves` is True where it was elsewhere at a later look, used a CPU, or did IO; None where nobody looked twice. A rank that
    waits for its peers may use a CPU for that: of such a rank only the line counts. `moved` is whether it was elsewhere,
    whatever it does; `advanced` whether it has left a line to which no loop leads back. `spins` is whether its thread is on a
    CPU. `joined` is False for a process of the launch that has not called `init_process_group`. `holder` is the rank whose
    process holds the file lock, or has the other end of the pipe, that it waits for. `counts` is whether a number that
    the user's own functions count changed between two looks: the rank makes progress, also at one line. `others_work` is
    whether another thread of the user's was at work between them; `gives_work_away` whether the main thread waits for a thread
    to end, or in an event loop; `receives` whether a wait for a connection or in an event loop came to an end meanwhile.
    """

    rank: int
    kind: Activity
    operation: str
    place: Frame | None
    moves: bool | None
    moved: bool
    process: ProcessState | None
    native: str = ""
    native_stack: tuple[str, ...] = ()
    spins: bool = False
    joined: bool = True
    advanced: bool = False
    holder: int | None = None
    counts: bool = False
    others_work: bool = False
    gives_work_away: bool = False
    receives: bool = False

    @property
    def description(self) -> str:
        """What it does, in words: `sleeps`, `waits for a file (read of /mnt/data/x)`, `computes before it joins`."""
        return self._kind_and_object() + ("" if self.joined else " before it joins")

    def _kind_and_object(self) -> str:
        state = self.process
        if self.kind is Activity.PIPE and state is not None:
            named = f" of {state.waits_on}" if (state.waits_on or "").startswith(A_NAMED_PIPE) else ""
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
        """Whether nothing of it moved between two looks: a rank whose collective goes on slowly uses some of a CPU.

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
    by_rank = {entry.rank: entry.value for entry in stacks or ()}
    states = {entry.rank: entry.value for entry in processes}
    absent = {entry.rank for entry in joining or () if not entry.value.called}
    ranks = {(entry.host, entry.value.pid): entry.rank for entry in processes}
    holders = {
        entry.rank: holder
        for entry in processes
        for other in entry.value.counterparts
        if len(entry.value.counterparts) == 1 and (holder := ranks.get((entry.host, other.pid))) is not None
    }
    return Activities(
        each=tuple(
            _rank_activity(
                rank,
                by_rank.get(rank),
                states.get(rank),
                _open_call(timeline, rank),
                code,
                recorded=timeline is not None and rank in timeline.call_index.records,
                joined=rank not in absent,
                holder=holders.get(rank),
            )
            for rank in sorted(by_rank.keys() | states.keys())
        )
    )


def _open_call(timeline: Timeline | None, rank: int) -> str | None:
    """The collective that the recorder shows this rank waiting in, unless it is a rank that others wait for."""
    if timeline is not None and timeline.transfers(rank):
        return "a send or receive"
    if timeline is None or any(rank in group.behind for group in timeline.groups):
        return None
    made = timeline.waiting(rank)
    return made.op if made is not None else None


def _rank_activity(
    rank: int,
    stacks: Stacks | None,
    process: ProcessState | None,
    open_call: str | None,
    code: SourceCode | None,
    *,
    recorded: bool,
    joined: bool,
    holder: int | None,
) -> RankActivity:
    keeps_the_gil = _keeps_the_gil(stacks, process)
    thread = stacks.gil_holder if stacks is not None and keeps_the_gil else _thread_that_matters(stacks)
    frames = thread.frames if thread else ()
    place = users_frame(frames)
    kind, operation = (Activity.GIL, _function(thread)) if keeps_the_gil else _activity(stacks, thread, process)
    if kind in {Activity.FILE, Activity.PIPE} and operation == "read" and _asks(frames, code):
        kind, operation = Activity.HUMAN, "input"  # a launcher has put a pipe in the place of the keyboard
    if kind is Activity.COMPUTING and imports(frames):
        kind = Activity.IMPORTING
    if kind in {Activity.UNKNOWN, Activity.SOCKET} and _asks_the_store(frames, code):
        kind = Activity.STORE
    counts = _counts(stacks, code)
    stays = _stays(stacks, code)
    if open_call is not None and _may_be_a_wait(kind, operation, stacks, code):
        kind, operation = Activity.COLLECTIVE, BACKWARD if operation == BACKWARD else open_call
    elif not recorded and kind is Activity.COMPUTING and stays and operation == BACKWARD:
        kind = Activity.COLLECTIVE  # a rank on a GPU spins there; without its recorder nobody can say that it computes
    elif not recorded and kind in _POLLING and stacks is not None and _polls(stacks, code, (ASKS_A_COLLECTIVE,)):
        kind, operation = Activity.COLLECTIVE, ASKS_A_COLLECTIVE
    elif not recorded and (told := _told_by_line(kind, frames, code, stays=stays and not counts)) is not None:
        kind, operation, place = told
    main = stacks.main.frames if stacks is not None and stacks.main is not None else ()
    came_out = kind in WAITS_FOR_PEERS and (counts or _came_out(stacks, process))
    if kind in WAITS_FOR_PEERS:
        moves: bool | None = True if came_out else None if stays is None else not stays
    else:
        moves = counts or _connection_moves(kind, process) or _moves(stacks, thread, process)
    return RankActivity(
        rank=rank,
        kind=kind,
        operation=operation,
        place=place,
        moves=moves,
        moved=came_out or stays is False
        if kind in WAITS_FOR_PEERS
        else counts or (stacks is not None and stacks.moved is True),
        process=process,
        native=thread.native[0] if thread and thread.native else "",
        native_stack=thread.native if thread else (),
        spins=thread is not None and thread.active,
        joined=joined,
        advanced=_advanced(stacks, code),
        holder=holder,
        counts=counts,
        others_work=stacks is not None and stacks.others_work,
        gives_work_away=joins_a_thread(main) or turns_an_event_loop(main),
        receives=_receives(kind, main, process),
    )


def _receives(kind: Activity, main: Sequence[Frame], process: ProcessState | None) -> bool:
    """Whether a wait for a connection or in an event loop came to an end meanwhile.

    The bytes of its connections decide where they were counted: one that only runs into its timeout wakes, too, and so does an
    event loop in which a function only sleeps and looks for something.
    """
    if process is None:
        return False
    turns = turns_an_event_loop(main)
    if process.connection_bytes is not None and (turns or kind is Activity.SOCKET):
        return process.connection_bytes > 0 or (turns and moves_data(process))
    return bool(process.wakes) and (turns or (kind is Activity.SOCKET and process.system_call in _RECEIVES))


def _connection_moves(kind: Activity, process: ProcessState | None) -> bool:
    return kind is Activity.SOCKET and process is not None and bool(process.connection_bytes)


def _thread_that_matters(stacks: Stacks | None) -> Thread | None:
    """The main thread, or, where that only waits for a thread of the user's own, the one that is in the job's code.

    Behind an event loop it is the thread of an executor, if one is at work.
    """
    if stacks is None:
        return None
    main = stacks.main
    if main is not None and joins_a_thread(main.frames):
        others = (thread for thread in stacks.threads if thread is not main and runs_users_code(thread.frames))
        return next(others, main)
    if main is not None and turns_an_event_loop(main.frames):
        return next((thread for thread in stacks.threads if works_for_an_executor(thread.frames)), main)
    return main


def _keeps_the_gil(stacks: Stacks | None, process: ProcessState | None) -> bool:
    """Whether a line of the user's own never gives the GIL back: an interpreter that shuts down is at no line any more.

    In the kernel, or stopped, that it holds the GIL too explains nothing; nor does it on a machine too busy to run it.
    """
    if stacks is None or not stacks.gil_never_free or stacks.gil_holder is None:
        return False
    waits = process is not None and process.state in "DTt"
    starved = process is not None and process.state == "R" and (process.cpu_share or 0.0) < BUSY_SHARE
    return not waits and not starved and runs_users_code(stacks.gil_holder.frames)


def _may_be_a_wait(kind: Activity, operation: str, stacks: Stacks | None, code: SourceCode | None) -> bool:
    """Whether a rank that does this may wait for the collective that its recorder shows outstanding."""
    told = told_by_stack(stacks.main.frames) if stacks is not None and stacks.main is not None else None
    if kind is Activity.SLEEP:
        return stacks is not None and _polls(stacks, code)
    return kind in _MAY_BE_A_WAIT and (told is None or operation == BACKWARD)


def _stays(stacks: Stacks | None, code: SourceCode | None) -> bool | None:
    """Whether the user's own lines were the same at every look, or those of one loop that asks a call whether it is through.

    None where nobody looked twice.
    """
    if stacks is None or stacks.moved is None:
        return None
    if not stacks.seen:
        return not stacks.moved
    return len(stacks.seen) == 1 or _polls(stacks, code)


def _counts(stacks: Stacks | None, code: SourceCode | None) -> bool:
    """Whether the user's own functions counted between two looks, other than how often they asked a call for its end."""
    return stacks is not None and bool(stacks.counts) and not _polls(stacks, code)


def _came_out(stacks: Stacks | None, process: ProcessState | None) -> bool:
    """Whether a rank that sleeps in one wait has woken meanwhile: it may stand at the same line of the next step.

    A wait in a collective sleeps once, until the collective is through. One that polls wakes in any case, and so does a process
    that handles the signal of a timer, of which `wakes` is None.
    """
    main = stacks.main if stacks is not None else None
    if main is None or main.active or process is None or process.system_call != WAITS_IN_ONE_CALL:
        return False
    return bool(process.wakes)


def _advanced(stacks: Stacks | None, code: SourceCode | None) -> bool:
    """Whether two looks found the rank at two lines of one function of the user's that no loop leads back to."""
    ways = [way[::-1] for way in stacks.seen] if stacks is not None else []
    return code is not None and any(_left_behind(one, other, code) for one, other in pairwise(ways))


def _left_behind(one: Sequence[Frame], other: Sequence[Frame], code: SourceCode) -> bool:
    """Whether the first frames that differ are lines of one function, outside of every loop that is on both stacks."""
    depth = next((at for at, (here, there) in enumerate(zip(one, other, strict=False)) if here != there), None)
    if depth is None or (one[depth].file, one[depth].function) != (other[depth].file, other[depth].function):
        return False
    above = [code.at(frame.file, frame.line) for frame in one[:depth]]
    here, there = (code.at(way[depth].file, way[depth].line) for way in (one, other))
    if here is None or there is None or any(place is None or place.loops for place in above):
        return False
    return set(here.loops).isdisjoint(there.loops)


def _polls(stacks: Stacks, code: SourceCode | None, asking: Sequence[str] = _ASKS_A_CALL) -> bool:
    """Whether all looks found the rank in one loop that asks a call whether it is through."""
    if (
        code is None
        or not stacks.seen
        or not all(stacks.seen)
        or len({(way[0].function, way[1:]) for way in stacks.seen}) > 1
    ):
        return False
    places = [place for way in stacks.seen if (place := code.at(way[0].file, way[0].line)) is not None]
    if len(places) < len(stacks.seen) or not any(_last_name(call) in asking for at in places for call in at.calls):
        return False
    loops = [
        {place.line, *(loop.line for loop in place.loops[-1:])} for place in places
    ]  # a head is not in its own loop
    return bool(set.intersection(*loops))


def _told_by_line(
    kind: Activity, frames: Sequence[Frame], code: SourceCode | None, *, stays: bool | None
) -> tuple[Activity, str, Frame | None] | None:
    """What the user's innermost line waits for: a call of torch by `work.wait()`, or the device, behind a collective or not.

    Only the `wait` of torch's own asynchronous calls leaves no frame of Python above the line. The collective is the last one
    on the way to the line, and the place is that of its call. None where the line does not tell.
    """
    place = users_frame(frames)
    known = code.at(place.file, place.line) if code is not None and place is not None else None
    if place is None or known is None:
        return None
    called = known.collectives[-1] if known.collectives else None
    if kind is Activity.LOCK and place is frames[0] and any(call.endswith(".wait") for call in known.calls):
        return Activity.COLLECTIVE, called.op if called is not None else UNKNOWN_CALL, place
    if kind is Activity.COMPUTING and stays and not _ASKS_THE_DEVICE.isdisjoint(map(_last_name, known.calls)):
        if called is None:
            return Activity.DEVICE, "a read from the device", place
        return Activity.COLLECTIVE, called.op, replace(place, line=called.line)
    return None


def _last_name(call: str) -> str:
    return call.rpartition(".")[2]


def _moves(stacks: Stacks | None, thread: Thread | None, process: ProcessState | None) -> bool | None:
    """Whether a rank that others wait for was elsewhere at a later look, or it or a process that it started is at work."""
    looked = []
    if stacks is not None and stacks.moved is not None:
        looked.append(stacks.moved)
    if process is not None and process.cpu_share is not None:
        at_work = (thread is not None and thread.active) or _is_at_its_own_end(stacks)
        starved = at_work and process.state == "R"  # ready, on a machine that is too busy
        looked.append(process.cpu_share >= BUSY_SHARE or starved)
    if process is not None:
        looked += [
            child.cpu_share >= BUSY_SHARE or child.state == "R"  # or ready, as above
            for child in process.children
            if child.cpu_share is not None
        ]
    if process is not None and process.io_bytes is not None and process.seconds > 0:
        looked.append(moves_data(process))
    return any(looked) if looked else None


def moves_data(process: ProcessState) -> bool:
    """Whether a rank read or wrote between two looks more than one that waits does."""
    return process.seconds > 0 and (process.io_bytes or 0) / process.seconds >= MOVED_BYTES


def _is_at_its_own_end(stacks: Stacks | None) -> bool:
    return stacks is not None and stacks.main is not None and not stacks.main.frames


def _activity(stacks: Stacks | None, thread: Thread | None, process: ProcessState | None) -> tuple[Activity, str]:
    if process is not None and process.state in "Tt":
        return Activity.STOPPED, "stopped"
    if _is_at_its_own_end(stacks):
        return Activity.EXITING, OWN_END  # no Python is left to run: it collects garbage, with the GIL
    in_the_kernel = process is not None and process.state == "D" and not _went_on(stacks, process)
    told = told_by_stack(thread.frames if thread else ())
    main = told_by_stack(stacks.main.frames) if stacks is not None and stacks.main is not None else None
    if main is not None and main[0] is Activity.EXITING:
        return main
    idle = thread is not None and not thread.active
    if told is None or told[0] not in WAITS_FOR_PEERS:
        if process is not None and in_the_kernel:
            return Activity.UNINTERRUPTIBLE, process.system_call or _function(thread)
    elif told[1] == BACKWARD and not idle:
        return Activity.COMPUTING, BACKWARD
    if told is not None:
        return told
    return _by_system_call(thread, process, idle=idle)


def _went_on(stacks: Stacks | None, process: ProcessState) -> bool:
    """Whether a rank that is in the kernel now has been elsewhere, or has read or written: a full disk cache does that."""
    return moves_data(process) or (stacks is not None and stacks.moved is True)


def _by_system_call(thread: Thread | None, process: ProcessState | None, *, idle: bool) -> tuple[Activity, str]:
    """A C function leaves no Python frame of its own: the system call tells what the innermost line waits for."""
    function = _function(thread)
    if not idle and thread is not None:
        return Activity.COMPUTING, function
    call = process.system_call if process is not None else None
    if call in {"nanosleep", "clock_nanosleep", "pause"} or (
        call in {"select", "pselect6"} and _mentions(thread, "sleep")
    ):
        return Activity.SLEEP, function
    if call in {"wait4", "waitid"}:
        return Activity.SUBPROCESS, function
    if call in {"flock", "fcntl"}:
        return Activity.LOCK, call
    waits_on = (process.waits_on if process is not None else None) or ""
    if call == "read" and waits_on == "standard input":
        return Activity.HUMAN, "input"
    if call in {"read", "write", "pread64", "pwrite64", "fsync", "fdatasync", "openat", "newfstatat"}:
        if waits_on.startswith("a connection") or waits_on == "a socket":
            return Activity.SOCKET, call
        opens_a_pipe = call == "openat" and process is not None and process.kernel_function == OPENS_A_NAMED_PIPE
        return (Activity.PIPE if opens_a_pipe or waits_on.startswith((A_PIPE, A_NAMED_PIPE)) else Activity.FILE), call
    if call in {"connect", "accept", "accept4", "recvfrom", "recvmsg", "sendto", "sendmsg"}:
        return Activity.SOCKET, call
    if call == "futex":
        return Activity.LOCK, function
    if process is not None and (process.cpu_share or 0) >= BUSY_SHARE:
        return Activity.COMPUTING, function
    return Activity.UNKNOWN, function


def _asks(frames: Sequence[Frame], code: SourceCode | None) -> bool:
    """Whether the user's innermost line asks for input, with nothing between it and the read."""
    place = users_frame(frames)
    if place is None or code is None or place is not frames[0]:
        return False
    known = code.at(place.file, place.line)
    return known is not None and not _ASKS.isdisjoint(known.calls)


def _asks_the_store(frames: Sequence[Frame], code: SourceCode | None) -> bool:
    """Whether the user's innermost line asks a rendezvous store for a key, which waits until some rank sets it."""
    place = users_frame(frames)
    known = code.at(place.file, place.line) if code is not None and place is not None and place is frames[0] else None
    others = [call for call in known.calls if not _ASKS_THE_STORE.search(call)] if known is not None else []
    asks = known is not None and len(others) < len(known.calls)
    return asks and _READS_A_VALUE.issuperset(map(_last_name, others))


def _function(thread: Thread | None) -> str:
    return thread.frames[0].function if thread is not None and thread.frames else ""


def _mentions(thread: Thread | None, word: str) -> bool:
    return thread is not None and any(word in frame.function for frame in thread.frames[:2])

"""Whether a rank moved between two snapshots: another line, a counter, processor time, or bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ddpdoctor.analysis.hangs.stack_patterns import WAITS_FOR_PEERS, Activity, turns_an_event_loop
from ddpdoctor.analysis.hangs.users_line import polls_a_call
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.process import ProcessState
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks, Thread

BUSY_SHARE = 0.2  # of one CPU: a rank that waits uses 0.00 to 0.02, with gloo's and OpenMP's threads
MOVED_BYTES = 1 << 16  # a second: a rank that reads or writes a file does more, one that waits does none

WAITS_IN_ONE_CALL = "futex"  # the system call of a condition variable, which a finished collective notifies
_RECEIVES = frozenset({"read", "recvfrom", "recvmsg", "poll", "ppoll", "sendto", "sendmsg", "write"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """What changed of one rank between two snapshots."""

    moves: bool | None
    """Whether it makes progress; None where there is only one snapshot."""
    moved: bool
    """Whether it was elsewhere, whatever it does."""


def movement(
    kind: Activity, stacks: Stacks | None, thread: Thread | None, process: ProcessState | None, code: SourceCode | None
) -> Movement:
    """How a rank moved that does `kind` in `thread`.

    A rank that waits for its peers may use a CPU for that: it moves where it left its line, or woke from its wait.
    """
    counts = counts_up(stacks, code)
    if kind not in WAITS_FOR_PEERS:
        moves = counts or _connection_moves(kind, process) or _moves(stacks, thread, process)
        return Movement(moves=moves, moved=counts or (stacks is not None and stacks.moved is True))
    if counts or _woke(stacks, process):
        return Movement(moves=True, moved=True)
    still = stays(stacks, code)
    return Movement(moves=None if still is None else not still, moved=still is False)


def stays(stacks: Stacks | None, code: SourceCode | None) -> bool | None:
    """Whether the user's own lines were the same in every snapshot, or those of one loop that asks a call whether it is complete.

    None where there is only one snapshot.
    """
    if stacks is None or stacks.moved is None:
        return None
    if not stacks.seen:
        return not stacks.moved
    return len(stacks.seen) == 1 or polls_a_call(stacks, code)


def counts_up(stacks: Stacks | None, code: SourceCode | None) -> bool:
    """Whether the user's own functions counted between two snapshots, and not only how often they polled a call."""
    return stacks is not None and bool(stacks.counts) and not polls_a_call(stacks, code)


def advanced(stacks: Stacks | None, code: SourceCode | None) -> bool:
    """Whether two snapshots show the rank at two lines of one function of the user's that no loop leads back to."""
    paths = [path[::-1] for path in stacks.seen] if stacks is not None else []
    return code is not None and any(_left_behind(one, other, code) for one, other in pairwise(paths))


def _left_behind(one: Sequence[Frame], other: Sequence[Frame], code: SourceCode) -> bool:
    """Whether the first frames that differ are lines of one function, outside of every loop that is on both stacks."""
    depth = next((at for at, (here, there) in enumerate(zip(one, other, strict=False)) if here != there), None)
    if depth is None or (one[depth].file, one[depth].function) != (other[depth].file, other[depth].function):
        return False
    above = [code.at(frame.file, frame.line) for frame in one[:depth]]
    here, there = (code.at(path[depth].file, path[depth].line) for path in (one, other))
    if here is None or there is None or any(place is None or place.loops for place in above):
        return False
    return set(here.loops).isdisjoint(there.loops)


def receives(kind: Activity, main: Sequence[Frame], process: ProcessState | None) -> bool:
    """Whether a wait for a connection or in an event loop ended between two snapshots.

    The bytes of the connections decide where they were counted: a wait that reaches its timeout wakes, too, and so does an event
    loop in which a function only sleeps and polls.
    """
    if process is None:
        return False
    turns = turns_an_event_loop(main)
    if process.connection_bytes is not None and (turns or kind is Activity.SOCKET):
        return process.connection_bytes > 0 or (turns and moves_data(process))
    return bool(process.wakes) and (turns or (kind is Activity.SOCKET and process.system_call in _RECEIVES))


def _connection_moves(kind: Activity, process: ProcessState | None) -> bool:
    return kind is Activity.SOCKET and process is not None and bool(process.connection_bytes)


def _woke(stacks: Stacks | None, process: ProcessState | None) -> bool:
    """Whether a rank that sleeps in one wait woke between two snapshots: it may be at the same line of the next step.

    A wait in a collective sleeps once, until the collective is complete. A wait that polls wakes in any case, and so does a
    process that handles the signal of a timer, whose `wakes` is None.
    """
    main = stacks.main if stacks is not None else None
    if main is None or main.active or process is None or process.system_call != WAITS_IN_ONE_CALL:
        return False
    return bool(process.wakes)


def _moves(stacks: Stacks | None, thread: Thread | None, process: ProcessState | None) -> bool | None:
    """Whether a rank that others wait for was elsewhere in a later snapshot, or it or a process that it started is at work."""
    looked = []
    if stacks is not None and stacks.moved is not None:
        looked.append(stacks.moved)
    if process is not None and process.cpu_share is not None:
        at_work = (thread is not None and thread.active) or is_at_its_own_end(stacks)
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
    """Whether a rank read or wrote between two snapshots more than one that waits does."""
    return process.seconds > 0 and (process.io_bytes or 0) / process.seconds >= MOVED_BYTES


def is_at_its_own_end(stacks: Stacks | None) -> bool:
    """Whether the main thread has no Python left to run: the interpreter shuts down."""
    return stacks is not None and stacks.main is not None and not stacks.main.frames

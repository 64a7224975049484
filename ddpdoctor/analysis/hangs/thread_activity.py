"""What the thread that matters of a rank does, by its stack, the state of its process and its system call."""

from __future__ import annotations

from ddpdoctor.analysis.hangs.movement import BUSY_SHARE, is_at_its_own_end, moves_data
from ddpdoctor.analysis.hangs.stack_patterns import (
    BACKWARD,
    WAITS_FOR_PEERS,
    Activity,
    activity_in_stack,
    joins_a_thread,
    turns_an_event_loop,
    works_for_an_executor,
)
from ddpdoctor.evidence.frames import runs_users_code
from ddpdoctor.evidence.process import A_NAMED_PIPE, A_PIPE, ProcessState
from ddpdoctor.evidence.stacks import Stacks, Thread

_OF_FILES = frozenset(
    {
        *("read", "write", "pread64", "pwrite64", "fsync", "fdatasync"),
        *("open", "openat", "stat", "lstat", "newfstatat", "statx"),
        *("mkdir", "mkdirat", "rename", "renameat", "unlink", "unlinkat"),
    }
)
OPENS_A_NAMED_PIPE = "wait_for_partner"  # the kernel's function in which an open of a FIFO waits for the other end
OWN_END = "the interpreter's own end"


def thread_that_matters(stacks: Stacks | None, process: ProcessState | None) -> Thread | None:
    """The thread that shows what a rank does: one that keeps the GIL, the main thread, or the one that this waits for."""
    if stacks is not None and _keeps_the_gil(stacks, process):
        return stacks.gil_holder
    return _main_or_its_worker(stacks)


def thread_activity(stacks: Stacks | None, thread: Thread | None, process: ProcessState | None) -> tuple[Activity, str]:
    """What a rank does in this thread, and the call that it is in."""
    if _keeps_the_gil(stacks, process):
        return Activity.GIL, _function(thread)
    if process is not None and process.state in "Tt":
        return Activity.STOPPED, "stopped"
    if is_at_its_own_end(stacks):
        return Activity.EXITING, OWN_END  # no Python is left to run: it collects garbage, with the GIL
    in_the_kernel = process is not None and process.state == "D" and not _went_on(stacks, process)
    activity = activity_in_stack(thread.frames if thread else ())
    main = activity_in_stack(stacks.main.frames) if stacks is not None and stacks.main is not None else None
    if main is not None and main[0] is Activity.EXITING:
        return main
    idle = thread is not None and not thread.active
    if activity is None or activity[0] not in WAITS_FOR_PEERS:
        if process is not None and in_the_kernel:
            return Activity.UNINTERRUPTIBLE, process.system_call or _function(thread)
    elif activity[1] == BACKWARD and not idle:
        return Activity.COMPUTING, BACKWARD
    if activity is not None:
        return activity
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
    if call in _OF_FILES:
        if waits_on.startswith("a connection") or waits_on == "a socket":
            return Activity.SOCKET, call
        opens_a_pipe = (
            call in {"open", "openat"} and process is not None and process.kernel_function == OPENS_A_NAMED_PIPE
        )
        return (Activity.PIPE if opens_a_pipe or waits_on.startswith((A_PIPE, A_NAMED_PIPE)) else Activity.FILE), call
    if call in {"connect", "accept", "accept4", "recvfrom", "recvmsg", "sendto", "sendmsg"}:
        return Activity.SOCKET, call
    if call == "futex":
        return Activity.LOCK, function
    if process is not None and (process.cpu_share or 0) >= BUSY_SHARE:
        return Activity.COMPUTING, function
    return Activity.UNKNOWN, function


def _function(thread: Thread | None) -> str:
    return thread.frames[0].function if thread is not None and thread.frames else ""


def _mentions(thread: Thread | None, word: str) -> bool:
    return thread is not None and any(word in frame.function for frame in thread.frames[:2])


def _main_or_its_worker(stacks: Stacks | None) -> Thread | None:
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

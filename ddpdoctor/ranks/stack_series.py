"""Several snapshots of the stacks of one rank, as one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ddpdoctor.agent.inside.process.recorder_socket import THREAD
from ddpdoctor.evidence.frames import Frame, is_users
from ddpdoctor.evidence.stacks import Stacks, Thread


def combined(each: Sequence[Stacks], *, has_agent: bool, answered: bool) -> Stacks:
    """Several snapshots as one: whether the main thread moved, at which lines it was, and whether the GIL was ever free.

    `answered` is whether the interpreter answered the agent, which the rank may have (`has_agent`).
    """
    first, last = each[0], each[-1]
    mains = [stacks.main for stacks in each]
    seen = dict.fromkeys(tuple(frame for frame in main.frames if is_users(frame.file)) for main in mains if main)
    if len(each) == 1:
        return replace(first, seen=tuple(seen))
    moved = None if None in mains else len({main.frames for main in mains if main is not None}) > 1
    last = replace(last, threads=idle_once(each, last.threads))
    holder, still = first.gil_holder, last.gil_holder
    never_free = (
        holder is not None
        and still is not None
        and holder.name != THREAD  # it is our own question that this rank is busy with
        and len({(one.os_id, one.frames) for stacks in each if (one := stacks.gil_holder) is not None}) == 1
        and not _others_moved(each, holder)
        and (not answered if has_agent else not still.active)
    )
    return replace(last, moved=moved, gil_never_free=never_free, seen=tuple(seen))


def _others_moved(each: Sequence[Stacks], holder: Thread) -> bool:
    """Whether another thread than this one was at several lines: it cannot move without the GIL."""
    of_thread: dict[int, set[tuple[Frame, ...]]] = {}
    for thread in (thread for stacks in each for thread in stacks.threads):
        if thread.os_id is not None and thread.os_id != holder.os_id:
            of_thread.setdefault(thread.os_id, set()).add(thread.frames)
    return any(len(seen) > 1 for seen in of_thread.values())


def idle_once(each: Sequence[Stacks], threads: Sequence[Thread]) -> tuple[Thread, ...]:
    """The threads, none of them active that was idle at the same line in one of the snapshots.

    py-spy interrupts a thread that sleeps, and on a busy machine it is still about to sleep again in the next one.
    """
    idle = {(thread.os_id, thread.frames) for stacks in each for thread in stacks.threads if not thread.active}
    return tuple(
        replace(thread, active=thread.active and (thread.os_id, thread.frames) not in idle) for thread in threads
    )

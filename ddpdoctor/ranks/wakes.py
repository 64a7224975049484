"""How often ranks woke from a sleep, and what their connections moved, within some seconds."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence

from ddpdoctor.host import connections, processes
from ddpdoctor.ranks.target import Target

POLL_SECONDS = 0.2


def wakes_within(targets: Sequence[Target], seconds: float) -> dict[int, int]:
    """By process, how often the thread that trains woke from a sleep within `seconds`, or in less where all of them have woken.

    Nobody interrupts the threads meanwhile. Those that did not sleep in the beginning are left out, and those that handle the
    signal of a timer, which wakes a thread that makes no progress.
    """
    asleep, until = sleeps_of(targets), time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0 and not all(wakes_since(asleep).values()):
        time.sleep(min(left, POLL_SECONDS))
    woken = wakes_since(asleep)
    return {target.pid: woken[target.thread] for target in targets if target.thread in woken}


def bytes_within(waited_for: Mapping[int, Collection[int]], seconds: float) -> dict[int, int]:
    """By process, the bytes that its connections moved within `seconds`, or in less where all of them moved some."""
    if not waited_for:
        return {}
    before, until = connections.moved_bytes(), time.monotonic() + seconds
    while True:
        moved = connections.moved_between(waited_for, before, connections.moved_bytes())
        if all(moved.values()) or (left := until - time.monotonic()) <= 0:
            return moved
        time.sleep(min(left, POLL_SECONDS))


def sleeps_of(targets: Sequence[Target]) -> dict[int, int]:
    """By thread that trains, how often it went to sleep, of those that sleep now and that no timer wakes."""
    counts = {
        target.thread: processes.sleeps(target.thread)
        for target in targets
        if not processes.may_be_woken_by_a_timer(target.pid)
    }
    return {thread: count for thread, count in counts.items() if count is not None}


def wakes_since(asleep: Mapping[int, int]) -> dict[int, int]:
    """By thread, how often it woke since `sleeps_of` counted; one that is awake now has woken once more."""
    now = {thread: processes.sleeps(thread) for thread in asleep}
    return {thread: 1 if (count := now[thread]) is None else count - before for thread, before in asleep.items()}

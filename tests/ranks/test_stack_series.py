"""Several snapshots of one rank, put together."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import Stacks, Thread
from ddpdoctor.ranks.stack_series import combined, idle_once

FETCH = (Frame(file="/home/me/job.py", line=8, function="fetch"),)
NEXT = (Frame(file="/home/me/job.py", line=9, function="fetch"),)


def threads(*, active: bool, frames: tuple[Frame, ...] = FETCH, holds_gil: bool = False) -> tuple[Thread, ...]:
    return (Thread(name="main", frames=frames, os_id=7, main=True, active=active, holds_gil=holds_gil),)


def look(*, active: bool, frames: tuple[Frame, ...] = FETCH) -> Stacks:
    return Stacks(source="py-spy", threads=threads(active=active, frames=frames))


def active_in_the_end(*looks: Stacks) -> bool:
    (thread,) = idle_once(looks, looks[-1].threads)
    return thread.active


def test_a_thread_that_sleeps_is_not_active_because_it_was_looked_at_again() -> None:
    assert not active_in_the_end(look(active=False), look(active=True))


def test_a_thread_that_was_active_at_every_look_or_idle_at_another_line_is() -> None:
    assert active_in_the_end(look(active=True), look(active=True))
    assert active_in_the_end(look(active=False, frames=NEXT), look(active=True))


@pytest.mark.parametrize(
    ("active", "never_free"),
    [
        pytest.param((False, False), True, id="it sleeps with the GIL"),
        pytest.param((False, True), True, id="it is about to sleep again after a look"),
        pytest.param((True, True), False, id="it computes"),
    ],
)
def test_a_thread_keeps_the_gil_that_sleeps_with_it_at_one_of_the_looks(
    active: tuple[bool, bool], never_free: bool
) -> None:
    each = [Stacks(source="py-spy", threads=threads(active=one, holds_gil=True)) for one in active]
    assert combined(each, has_agent=False, answered=False).gil_never_free == never_free


IN_C = Thread(name="main", frames=FETCH, os_id=7, main=True, holds_gil=True)
WAITING, ELSEWHERE = (Thread(name="pool", frames=frames, os_id=8) for frames in (FETCH, NEXT))


def never_free(*looks: tuple[Thread, ...]) -> bool:
    each = [Stacks(source="py-spy", threads=threads) for threads in looks]
    return combined(each, has_agent=False, answered=False).gil_never_free


def test_the_gil_was_free_where_another_thread_held_it_or_moved_between_two_looks() -> None:
    assert never_free((IN_C, WAITING), (IN_C, WAITING), (IN_C, WAITING))
    passed_on = (replace(IN_C, holds_gil=False), replace(WAITING, holds_gil=True))
    assert not never_free((IN_C, WAITING), passed_on, (IN_C, WAITING))
    assert not never_free((IN_C, WAITING), (IN_C, ELSEWHERE), (IN_C, WAITING))
    assert not never_free((IN_C, WAITING), (IN_C, WAITING), (IN_C, ELSEWHERE))

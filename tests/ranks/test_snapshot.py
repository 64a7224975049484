"""Several looks at one rank, put together."""

from __future__ import annotations

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import Stacks, Thread
from ddpdoctor.ranks.snapshot import _idle_once

FETCH = (Frame(file="/home/me/job.py", line=8, function="fetch"),)
NEXT = (Frame(file="/home/me/job.py", line=9, function="fetch"),)


def look(*, active: bool, frames: tuple[Frame, ...] = FETCH) -> Stacks:
    return Stacks(source="py-spy", threads=(Thread(name="main", frames=frames, os_id=7, main=True, active=active),))


def active_in_the_end(*looks: Stacks) -> bool:
    (thread,) = _idle_once(looks, looks[-1].threads)
    return thread.active


def test_a_thread_that_sleeps_is_not_active_because_it_was_looked_at_again() -> None:
    assert not active_in_the_end(look(active=False), look(active=True))


def test_a_thread_that_was_active_at_every_look_or_idle_at_another_line_is() -> None:
    assert active_in_the_end(look(active=True), look(active=True))
    assert active_in_the_end(look(active=False, frames=NEXT), look(active=True))

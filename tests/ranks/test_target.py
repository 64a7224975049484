"""The thread of a rank that is looked at: the one that trains."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from ddpdoctor.agent.inside.schema.call_ring import Header
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.host.processes import sample
from ddpdoctor.ranks.agent_files import RankProcess
from ddpdoctor.ranks.snapshot import with_training
from ddpdoctor.ranks.target import Target


def training_in(thread: int) -> Target:
    """This process as a rank whose agent says that this thread trains."""
    header = Header(rank=0, world_size=1, thread=thread)
    return Target(rank=0, pid=os.getpid(), agent=RankProcess(directory=Path(), pid=os.getpid(), header=header))


def test_the_thread_that_trains_is_the_main_one_where_the_agent_tells_of_none_or_of_one_that_ended() -> None:
    assert Target(rank=0, pid=os.getpid()).thread == os.getpid()
    for told in (0, os.getppid()):
        assert training_in(told).thread == os.getpid()


def test_what_a_rank_waits_in_is_read_of_the_thread_that_trains() -> None:
    begun, end = threading.Event(), threading.Event()
    numbers: list[int] = []

    def wait() -> None:
        numbers.append(threading.get_native_id())
        begun.set()
        end.wait()

    thread = threading.Thread(target=wait)
    thread.start()
    assert begun.wait(60)
    target = training_in(*numbers)
    assert Target(rank=0, pid=os.getpid(), trains=numbers[0]).thread == numbers[0]
    looked_at, seen = target.thread, sample(target.pid, target.thread)
    end.set()
    thread.join()
    assert looked_at == numbers[0]
    assert seen is not None
    assert seen.system_call in {None, "futex"}  # None on a machine whose kernel does not tell


def test_the_stack_that_counts_is_that_of_the_thread_that_trains() -> None:
    threads = (Thread(name="MainThread", frames=(), os_id=7, main=True), Thread(name="trainer", frames=(), os_id=8))
    assert [one.main for one in with_training(threads, 8)] == [False, True]
    for other in (0, 9):
        assert with_training(threads, other) == threads

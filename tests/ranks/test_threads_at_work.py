"""Threads beside the main one that are at work, and those that only wait."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.ranks.threads_at_work import ThreadUsage, at_work, uses_of

BEATS = Thread(name="beats", frames=(Frame(file="/job/train.py", line=5, function="beat"),), os_id=101)
ELSEWHERE = replace(BEATS, frames=(Frame(file="/job/train.py", line=6, function="beat"),))
OF_A_LIBRARY = replace(BEATS, frames=(Frame(file="/usr/lib/python3.11/threading.py", line=5, function="wait"),))


def worked(*, seconds: float = 0.0, io_bytes: int = 0, thread: Thread = BEATS, again: Thread | None = None) -> bool:
    before, after = {101: ThreadUsage(1.0, 50)}, {101: ThreadUsage(1.0 + seconds, 50 + io_bytes)}
    return at_work([[thread], [again or thread]], before, after, 2.0)


def test_a_thread_that_uses_a_cpu_or_moves_data_or_is_elsewhere_is_at_work() -> None:
    assert worked(seconds=1.0)
    assert worked(io_bytes=1 << 20)
    assert worked(again=ELSEWHERE)


def test_a_thread_that_sleeps_or_is_the_main_one_or_a_librarys_is_not() -> None:
    assert not worked()
    assert not worked(seconds=0.01, io_bytes=200)
    assert not worked(seconds=1.0, thread=replace(BEATS, main=True))
    assert not worked(seconds=1.0, thread=OF_A_LIBRARY)


def test_a_thread_that_has_ended_or_begun_meanwhile_is_not() -> None:
    assert not at_work([[BEATS], []], {101: ThreadUsage(1.0, 0)}, {}, 2.0)
    assert not at_work([[], [BEATS]], {}, {101: ThreadUsage(9.0, 0)}, 2.0)


def test_what_a_thread_uses_is_read() -> None:
    numbers, end = list[int](), threading.Event()

    def compute() -> None:
        numbers.append(threading.get_native_id())
        while not end.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        while not numbers:
            time.sleep(0.01)
        known = [replace(BEATS, os_id=numbers[0]), replace(BEATS, os_id=1 << 30)]
        before = uses_of(os.getpid(), known)
        time.sleep(0.5)
        after = uses_of(os.getpid(), known)
    finally:
        end.set()
        thread.join()
    assert before.keys() == after.keys() == {numbers[0]}
    assert after[numbers[0]].seconds - before[numbers[0]].seconds > 0.05

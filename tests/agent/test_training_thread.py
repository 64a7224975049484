"""Which thread of a rank trains: what other threads call is no sign that the training goes on."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.calls.training_thread import TrainingThread
from ddpdoctor.ranks.call_ring_reader import read_header

R = TypeVar("R")


def in_a_thread(do: Callable[[], R]) -> R:
    """What `do` returns in a thread that the program starts."""
    found: list[R] = []
    thread = threading.Thread(target=lambda: found.append(do()))
    thread.start()
    thread.join()
    return found[0]


def in_a_foreign_thread(do: Callable[[], R]) -> R:
    """What `do` returns in a thread that `threading` has not started, as those of autograd are."""
    found: list[R] = []
    ended = threading.Event()
    _thread.start_new_thread(lambda: (found.append(do()), ended.set()), ())
    assert ended.wait(60)
    return found[0]


def test_a_thread_of_the_program_is_beside_the_main_one_and_one_of_autograds_is_not() -> None:
    thread = TrainingThread()
    assert not thread.is_beside()
    assert in_a_thread(thread.is_beside)
    assert not in_a_foreign_thread(thread.is_beside)
    assert thread.os_id == 0


def test_where_a_thread_of_the_program_trains_the_main_one_is_beside_it() -> None:
    thread = TrainingThread()

    def train() -> tuple[bool, int]:
        thread.trains()
        return thread.is_beside(), threading.get_native_id()

    assert in_a_thread(train) == (False, thread.os_id)
    assert thread.is_beside()
    thread.trains()  # it has trained, too
    assert not thread.is_beside()
    assert thread.os_id == threading.get_native_id()


@pytest.mark.parametrize(("where", "in_training"), [(in_a_thread, 1), (in_a_foreign_thread, 2)])
def test_the_ring_counts_what_is_called_beside_the_training(
    where: Callable[[Callable[[], None]], None], in_training: int, tmp_path: Path
) -> None:
    ring = CallRing(str(tmp_path / "7.ring"), rank=0, world_size=2, restart=0)

    def call() -> None:
        ring.end(ring.begin_collective(1, 1, 1, seq=1))

    call()
    where(call)
    header = read_header((tmp_path / "7.ring").read_bytes())
    assert header is not None
    assert (header.written, header.returned) == (2, 2)
    assert (header.written_in_training, header.returned_in_training) == (in_training, in_training)
    assert header.thread == 0
    ring.thread.trains()
    ring.count_step()
    header = read_header((tmp_path / "7.ring").read_bytes())
    assert header is not None
    assert header.thread == threading.get_native_id()

"""A trainer in a thread of its own, known by the stacks of all ranks alone."""

from __future__ import annotations

from ddpdoctor.analysis.hangs.training_threads import training_threads
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import Thread
from tests.hangs import C10D, IN_BACKWARD, SCRIPT, STDLIB, stack

STARTED = (
    Frame(file=SCRIPT, line=40, function="train"),
    Frame(file=f"{STDLIB}/threading.py", line=982, function="run"),
    Frame(file=f"{STDLIB}/threading.py", line=1002, function="_bootstrap"),
)
WAITS = Thread(name="MainThread", os_id=1, main=True, frames=stack((f"{STDLIB}/threading.py", 331, "wait")))
TRAINS = Thread(name="trainer", os_id=2, frames=(*IN_BACKWARD[:-1], *STARTED))
STUCK = Thread(name="Thread-7", os_id=3, frames=(Frame(file=SCRIPT, line=13, function="load_shard"), *STARTED))
BEATS = Thread(
    name="Thread-1",
    os_id=4,
    frames=(
        Frame(file=C10D, line=9, function="all_reduce"),
        Frame(file=SCRIPT, line=5, function="heartbeat"),
        *STARTED[1:],
    ),
)


def test_the_thread_of_a_stuck_rank_is_known_by_the_function_in_which_its_peers_train() -> None:
    assert training_threads({0: (WAITS, TRAINS), 1: (WAITS, STUCK, BEATS)}) == {0: 2, 1: 3}
    assert training_threads({0: (WAITS, TRAINS), 1: (WAITS, BEATS)}) == {0: 2}


def test_the_main_thread_is_left_where_it_trains_or_nobody_is_seen_to_train() -> None:
    trains = Thread(name="MainThread", os_id=1, main=True, frames=IN_BACKWARD)
    assert training_threads({0: (trains, BEATS), 1: (WAITS, STUCK, BEATS)}) == {}
    assert training_threads({0: (trains,), 1: (WAITS, TRAINS)}) == {}
    assert training_threads({0: (WAITS, BEATS), 1: (WAITS, STUCK, BEATS)}) == {}


def test_two_functions_that_train_decide_nothing() -> None:
    own = Thread(name="Thread-9", os_id=5, frames=(*IN_BACKWARD[:-1], *STARTED[1:]))
    assert training_threads({0: (WAITS, TRAINS), 1: (WAITS, own)}) == {}
    twice = Thread(name="Thread-8", os_id=6, frames=STARTED)
    assert training_threads({0: (WAITS, TRAINS), 1: (WAITS, STUCK, twice)}) == {0: 2}

"""Which thread of each rank trains, by the stacks of all ranks, where it is the main one of none.

The main thread of a trainer that runs in a thread of its own only waits, or reports. A rank that is stuck in the user's code
shows no training itself: its thread is known by the function that it runs, in which peers are seen to train.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from ddpdoctor.evidence.frames import Frame, program_frames
from ddpdoctor.evidence.stacks import Thread

K = TypeVar("K")

_TRAINS = re.compile(
    r"/torch/(?:nn/parallel/distributed\.py:"
    r"|autograd/graph\.py:_engine_run_backward$"
    r"|optim/\w{1,40}\.py:(?:wrapper|step|_single_tensor_\w{1,40}|_multi_tensor_\w{1,40})$)"
)


def training_threads(ranks: Mapping[K, Sequence[Thread]]) -> dict[K, int]:
    """By rank the kernel's number of the thread that trains, where that is not the main one of any rank.

    Nothing where a main thread is seen to train, or threads that run different functions are.
    """
    train = [(thread, _begun(thread)) for threads in ranks.values() for thread in threads if _trains(thread)]
    functions = {begun for _, begun in train}
    if len(functions) != 1 or None in functions or any(thread.main for thread, _ in train):
        return {}
    found = {}
    for rank, threads in ranks.items():
        numbers = [one.os_id for one in threads if not one.main and _begun(one) in functions]
        if len(numbers) == 1 and numbers[0] is not None:
            found[rank] = numbers[0]
    return found


def _trains(thread: Thread) -> bool:
    return any(_TRAINS.search(f"{frame.file}:{frame.function}") for frame in thread.frames)


def _begun(thread: Thread) -> tuple[str, str] | None:
    """The function of the program that the thread runs; None where it runs none."""
    outermost: Frame | None = next(iter(program_frames(thread.frames)), None)
    return (outermost.file, outermost.function) if outermost is not None else None

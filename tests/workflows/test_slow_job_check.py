"""A look at a slow rank whose batches other processes make shows the lines at which these are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import Thread
from ddpdoctor.workflows import slow_job_check
from ddpdoctor.workflows.slow_job_check import LOOKS, looks_at

TORCH_DATA = "/venv/lib/python3.11/site-packages/torch/utils/data"
LOOP = Frame(file="/job/train.py", line=54, function="train_epoch")
NEXT_BATCH = Frame(file=f"{TORCH_DATA}/dataloader.py", line=1500, function="_next_data")
ITEM = Frame(file="/job/data.py", line=18, function="__getitem__")
IN_WORKER = Frame(file=f"{TORCH_DATA}/_utils/worker.py", line=360, function="_worker_loop")


def process(*frames: Frame) -> tuple[Thread, ...]:
    """The main thread of a process, innermost frame first."""
    return (Thread(name="MainThread", main=True, frames=frames),)


@pytest.mark.parametrize(
    ("workers", "shown"),
    [
        ([(ITEM, IN_WORKER, LOOP), (IN_WORKER, LOOP)], ITEM),  # the second one waits for work
        ([(IN_WORKER, LOOP)], LOOP),  # forked from that line, and idle
        ([], LOOP),
    ],
)
def test_what_the_workers_do_is_shown_where_the_rank_waits_for_them(
    workers: Sequence[tuple[Frame, ...]], shown: Frame, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow_job_check, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(slow_job_check, "py_spy", lambda _pid: process(NEXT_BATCH, LOOP))
    monkeypatch.setattr(slow_job_check, "loader_workers", lambda _pid: list(range(len(workers))))
    monkeypatch.setattr(slow_job_check, "py_spy_each", lambda pids: {pid: process(*workers[pid]) for pid in pids})

    found = looks_at(1)

    assert (found.places, found.times) == ((shown,), (LOOKS,))

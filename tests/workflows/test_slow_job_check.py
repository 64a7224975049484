"""A look at a slow rank whose batches other processes make shows the lines at which these are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.workflows import slow_job_check
from ddpdoctor.workflows.slow_job_check import looks_at

TORCH_DATA = "/venv/lib/python3.11/site-packages/torch/utils/data"
LOOP = Frame(file="/job/train.py", line=54, function="train_epoch")
NEXT_BATCH = Frame(file=f"{TORCH_DATA}/dataloader.py", line=1500, function="_next_data")
ITEM = Frame(file="/job/data.py", line=18, function="__getitem__")
IN_WORKER = Frame(file=f"{TORCH_DATA}/_utils/worker.py", line=360, function="_worker_loop")


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
    monkeypatch.setattr(slow_job_check, "loader_workers", lambda _pid: list(range(len(workers))))
    samples = (Counter({(NEXT_BATCH, LOOP): 40}), *(Counter({stack: 20}) for stack in workers))
    monkeypatch.setattr(slow_job_check, "samples_of", lambda _pids: samples)

    found = looks_at(1)

    assert (found.of, found.places, found.times) == (40, (shown,), (40,))


@pytest.mark.parametrize(("elsewhere", "first"), [(30, LOOP), (2, "the most frequent line")])
def test_a_function_that_takes_its_time_in_many_lines_is_shown_by_its_call(
    elsewhere: int, first: Frame | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = [Frame(file="/job/data.py", line=line, function="clean") for line in range(10, 15)]
    rest = (Frame(file="/job/train.py", line=70, function="train_epoch"),)
    stacks = Counter({(line, LOOP): 10 for line in inside} | {rest: elsewhere})
    monkeypatch.setattr(slow_job_check, "loader_workers", lambda _pid: [])
    monkeypatch.setattr(slow_job_check, "samples_of", lambda _pids: (stacks,))

    found = looks_at(1)

    assert found.places[0] == (first if isinstance(first, Frame) else inside[0])
    assert found.times[0] == (50 if first == LOOP else 10)

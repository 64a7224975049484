"""Batches that a thread draws ahead of the training loop: how far it is ahead is chance, so they are no iterations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ddpdoctor.agent.inside.progress_counters import TrainingLoop
from tests.agent.followed_rank import FollowedRank

LOADER = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)


def in_a_thread(do: Callable[[], object]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


def test_the_loop_is_in_the_main_thread_until_another_makes_a_forward() -> None:
    loop = TrainingLoop()
    seen: list[bool] = []
    assert loop.is_here()
    in_a_thread(lambda: seen.append(loop.is_here()))
    in_a_thread(lambda: (loop.forward(), seen.append(loop.is_here())))
    assert seen == [False, True]
    assert not loop.is_here()


def test_a_batch_that_another_thread_drew_gives_no_position(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for owner, name in (
        (DataLoader, "__iter__"),
        (_BaseDataLoaderIter, "__next__"),
        (_BaseDataLoaderIter, "_next_index"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))  # as it is, when the test is over
    followed = FollowedRank(tmp_path, nn.Linear(4, 1))
    followed.batches.install()
    batches = iter(LOADER)
    optimizer = torch.optim.SGD(followed.model.parameters(), lr=0.1)
    (batch,) = next(batches)
    followed.step(optimizer, batch)
    position = followed.batches.position
    assert position is not None
    assert position.batches == 1
    in_a_thread(lambda: next(batches))
    assert followed.batches.position is None

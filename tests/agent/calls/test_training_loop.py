"""Batches that a thread draws ahead of the training loop: how far it is ahead is chance, so they are no iterations."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from ddpdoctor.agent.inside.calls.call_ring import CallRing
from ddpdoctor.agent.inside.calls.training_loop import TrainingLoop
from ddpdoctor.agent.inside.calls.training_thread import TrainingThread
from tests.agent.followed_rank import FollowedRank

LOADER = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)


def in_a_thread(do: Callable[[], object]) -> None:
    thread = threading.Thread(target=do)
    thread.start()
    thread.join()


class Ring:
    """Notes the numbers of the batches that are recorded."""

    def __init__(self) -> None:
        self.recorded: list[tuple[int, int | None]] = []
        self.forwards = self.steps = 0
        self.thread = TrainingThread()

    def count_step(self) -> None:
        """As of a ring."""
        self.steps += 1

    def alive(self) -> None:
        """As of a ring."""

    def batch(self, data_set: int, *, iteration: int, in_pass: int | None, **_rest: object) -> None:
        assert data_set == 1
        self.recorded.append((iteration, in_pass))


class Iterator:
    """A pass over a data loader."""

    def __init__(self, loop: TrainingLoop) -> None:
        self.loop, self.drawn = loop, 0
        self.begun = loop.begins(self, data_set=1)

    def draw(self) -> None:
        self.drawn += 1
        self.loop.drew(self.begun, 0, 0, self.drawn)


def test_the_loop_is_in_the_main_thread_until_another_makes_a_forward() -> None:
    loop = TrainingLoop(cast("CallRing", Ring()))
    seen: list[bool] = []
    assert loop.is_here()
    in_a_thread(lambda: seen.append(loop.is_here()))
    in_a_thread(lambda: (loop.trains(), seen.append(loop.is_here())))
    assert seen == [False, True]
    assert not loop.is_here()


def test_steps_of_a_thread_beside_the_wrapped_models_forwards_are_not_counted() -> None:
    """They would hide a hang of the training, and ranks make other numbers of them."""
    ring = Ring()
    loop = TrainingLoop(cast("CallRing", ring))
    ring.forwards += 1
    loop.trains()
    loop.steps()
    in_a_thread(loop.steps)
    assert ring.steps == 1
    in_a_thread(lambda: (loop.trains(), loop.steps()))  # the training has moved to that thread
    assert ring.steps == 2


def test_without_a_wrapped_model_the_steps_of_any_thread_count() -> None:
    ring = Ring()
    loop = TrainingLoop(cast("CallRing", ring))
    loop.steps()
    in_a_thread(loop.steps)
    assert ring.steps == 2


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


def test_passes_that_nothing_is_trained_on_are_no_iterations() -> None:
    """Rank 0 shows a batch, evaluates on the training data, and looks at a batch in the middle of a step."""
    ring = Ring()
    loop = TrainingLoop(cast("CallRing", ring))
    Iterator(loop).draw()
    training, evaluation = Iterator(loop), Iterator(loop)
    for _ in range(3):
        training.draw()
        Iterator(loop).draw() if training.drawn == 2 else None
        loop.trains()
    for _ in range(3):
        evaluation.draw()
    assert ring.recorded == [(1, 1), (2, 2), (3, 3)]
    again = Iterator(loop)
    again.draw()
    loop.trains()
    again.draw()  # and passed over
    again.draw()
    loop.trains()
    assert ring.recorded[3:] == [(4, 1), (5, 2), (6, 3)]


def test_batches_before_the_first_forward_of_a_pass_are_iterations_too() -> None:
    """As of a rank that passes over the first batches of an epoch, or draws one ahead."""
    ring = Ring()
    loop = TrainingLoop(cast("CallRing", ring))
    training = Iterator(loop)
    training.draw()
    training.draw()
    assert ring.recorded == []
    loop.trains()
    assert ring.recorded == [(1, 1), (2, 2)]


def test_a_loader_whose_class_has_no_hash_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Loader(DataLoader[object]):
        __hash__ = None  # type: ignore[assignment]

    for owner, name in (
        (DataLoader, "__iter__"),
        (_BaseDataLoaderIter, "__next__"),
        (_BaseDataLoaderIter, "_next_index"),
    ):
        monkeypatch.setattr(owner, name, getattr(owner, name))
    followed = FollowedRank(tmp_path, nn.Linear(4, 1))
    followed.batches.install()
    optimizer = torch.optim.SGD(followed.model.parameters(), lr=0.1)
    for (batch,) in Loader(LOADER.dataset, batch_size=4):
        followed.step(optimizer, batch)
    position = followed.batches.position
    assert position is not None
    assert position.batches == 2

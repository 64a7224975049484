"""What one rank writes down of its training, read back: models that come and go, what is not training, and evaluations."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ddpdoctor.agent.hooked import Hooked
from ddpdoctor.collect.tracks import read_tracks
from ddpdoctor.evidence.track import Track

Follow = Callable[..., Track]


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """A function that runs another as the only rank of a job, followed, and gives the rank's track."""
    numbers = itertools.count()

    def followed(job: Callable[[], object], every: int = 1) -> Track:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        hooked = Hooked(str(folder), every, [])
        job()
        hooked.remove()
        (rank,) = read_tracks(folder)
        (track,) = (fact for fact in rank.facts if isinstance(fact, Track))
        return track

    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield followed
    dist.destroy_process_group()


class Net(nn.Linear):
    """One layer that takes its input by name, as transformers do."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - their name for it
        return super().forward(input)


def wrapped() -> DistributedDataParallel:
    torch.manual_seed(0)
    return DistributedDataParallel(Net(4, 2))


def train(model: nn.Module, steps: int) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(input=torch.ones(3, 4)).square().sum().backward()
        optimizer.step()


@pytest.mark.parametrize("persistent", [False, True])
def test_the_samples_of_a_loader_with_workers_are_known(follow: Follow, persistent: bool) -> None:
    sampler = DistributedSampler(range(64), num_replicas=3, rank=1)
    drawn = []

    def job() -> None:
        loader = DataLoader(range(64), 4, sampler=sampler, num_workers=1, persistent_workers=persistent)
        model = wrapped()
        for epoch in range(2):
            sampler.set_epoch(epoch)
            drawn.append(tuple(sampler))
            for _ in loader:
                train(model, 1)

    assert [epoch.indices for epoch in follow(job).epochs] == drawn

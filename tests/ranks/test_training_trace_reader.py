"""What one rank writes down of its training, read back: models that come and go, what is not training, and evaluations."""

from __future__ import annotations

import gc
import itertools
import pickle
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler

from ddpdoctor.agent.inside import verify_sync_feature
from ddpdoctor.evidence.training_trace import Track
from ddpdoctor.ranks.training_trace_reader import read_tracks
from ddpdoctor.replicas.hook_scope import InstalledTracker

Follow = Callable[..., Track]


@pytest.fixture
def follow(tmp_path: Path) -> Iterator[Follow]:
    """A function that runs another as the only rank of a job, followed, and gives the rank's track."""
    numbers = itertools.count()

    def followed(job: Callable[[], object], every: int = 1) -> Track:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        hooked = InstalledTracker(str(folder), every, [])
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


def test_models_of_earlier_folds_are_let_go_and_their_last_weights_kept(follow: Follow) -> None:
    alive: list[weakref.ref[nn.Module]] = []

    def folds() -> None:
        train(Net(4, 2), 5)
        for _ in range(3):
            model = wrapped()
            alive.append(weakref.ref(model.module))
            train(model, 2)
            del model
            gc.collect()
        assert [module() is None for module in alive] == [True, True, False]

    track = follow(folds, every=100)
    assert [left.step for left in track.left] == [2, 4, 6]
    assert [[*track.tables[left.weights].digests] for left in track.left] == [
        ["weight", "bias"], ["model2:weight", "model2:bias"], ["model3:weight", "model3:bias"],
    ]  # fmt: skip
    assert len({(*track.tables[left.weights].digests.values(),) for left in track.left}) == 1


def test_a_model_that_is_trained_again_beside_a_later_one_is_followed_again(follow: Follow) -> None:
    def both() -> None:
        first = wrapped()
        train(first, 1)
        second = wrapped()
        train(second, 1)
        train(first, 1)

    after = [track.tables[step.after].digests for track in [follow(both)] for step in track.steps]
    assert [[*digests] for digests in after[1:]] == [
        ["model2:weight", "model2:bias"], ["weight", "bias", "model2:weight", "model2:bias"],
    ]  # fmt: skip


def test_replicas_of_a_job_without_a_wrapper_are_those_that_reduce_gradients_together(follow: Follow) -> None:
    def averages(*, gradients: bool) -> None:
        model = Net(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        model(torch.ones(3, 4)).sum().backward()
        sent = [parameter.grad for parameter in model.parameters()] if gradients else [torch.ones(1)]
        flat = torch.cat([tensor.reshape(-1) for tensor in sent if tensor is not None])
        verify_sync_feature._reduced("all_reduce", flat, (0, 2))
        optimizer.step()

    assert follow(lambda: averages(gradients=True)).replicas == {0, 2}
    assert follow(lambda: averages(gradients=False)).replicas is None


@pytest.mark.parametrize("every", [1, 100])
def test_weights_loaded_after_the_last_step_are_not_those_of_the_training(follow: Follow, every: int) -> None:
    def job(loads: bool) -> None:
        model = wrapped()
        best = {name: tensor.clone() for name, tensor in model.module.state_dict().items()}
        train(model, 3)
        if loads:
            model.module.load_state_dict(best)

    with_load, without = follow(lambda: job(loads=True), every), follow(lambda: job(loads=False), every)
    assert [left.weights for left in with_load.left] == [left.weights for left in without.left]


def test_the_line_that_loads_weights_is_that_of_the_next_step(follow: Follow) -> None:
    def job() -> None:
        model = wrapped()
        train(model, 1)
        model.module.load_state_dict(model.module.state_dict())
        train(model, 2)

    loads = [step.lines.get("load") for step in follow(job).steps]
    assert [line and line.function for line in loads] == [None, "job", None]


def test_steps_of_a_probe_on_one_rank_are_not_counted(follow: Follow) -> None:
    def job(probes: bool) -> None:
        if probes:
            train(Net(4, 2), 4)
        model = wrapped()
        train(model, 2)
        if probes:
            train(Net(4, 2), 4)
        train(model, 2)

    with_probe, without = follow(lambda: job(probes=True)), follow(lambda: job(probes=False))
    assert with_probe.steps_made == without.steps_made == 4
    wrapped_steps = [step for step in with_probe.steps if not step.beside and step.forwards]
    assert [(step.key, step.step) for step in wrapped_steps] == [(step.key, step.step) for step in without.steps]


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


def test_a_pickle_of_a_followed_model_holds_nothing_of_ours_and_works(follow: Follow) -> None:
    written: list[bytes] = []
    follow(lambda: written.append(pickle.dumps(wrapped().module)))
    assert b"ddpdoctor" not in written[0]
    assert pickle.loads(written[0])(input=torch.ones(3, 4)).shape == (3, 2)


def test_an_evaluation_whose_inputs_come_by_name_is_told_by_them(follow: Follow) -> None:
    def job() -> None:
        model = wrapped().eval()
        for value in range(2):
            with torch.no_grad():
                model(input=torch.full((5, 4), float(value)))
            model.train()
            train(model, 1)
            model.eval()

    zeros, ones = follow(job).evaluations
    assert (zeros.samples, ones.samples) == (5, 5)
    assert zeros.input != ones.input

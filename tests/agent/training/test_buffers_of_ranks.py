"""What a rank writes down of the buffers that its wrapper leaves to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from ddpdoctor.agent.inside.schema.step_records import Step
from ddpdoctor.agent.inside.training.buffer_writes import BufferWrites
from ddpdoctor.agent.inside.training.ddp_models import Models, WrappedModel
from tests.agent.followed_rank import FollowedRank


def test_writes_by_operations_and_replaced_buffers_are_counted_for_each_buffer() -> None:
    net = nn.Module()
    for name in ("kept", "written", "replaced"):
        net.register_buffer(name, torch.ones(4))
    writes = BufferWrites()
    assert not writes.look(dict(net.named_buffers()))  # nothing is known yet
    net.written.add_(1).mul_(2)
    net.replaced = torch.maximum(net.replaced, torch.ones(4))
    net.kept.data.fill_(2.0)  # not counted by PyTorch
    buffers = dict(net.named_buffers())
    assert writes.look(buffers)
    assert writes.of(buffers) == [0, 2, 1]
    net.kept.add_(1)
    net.written.add_(1)
    net.replaced = torch.ones(4)
    assert not writes.look(dict(net.named_buffers()))  # all were written
    assert writes.of(buffers) == [1, 3, 2]


def test_a_buffer_that_the_wrapper_ignores_is_left_to_the_rank() -> None:
    net = nn.Sequential(nn.BatchNorm1d(4))
    assert not WrappedModel(net, "").leaves_buffers_to_ranks
    net.parameters_to_ignore = {"0.running_mean", "0.weight"}  # type: ignore[assignment]
    model = WrappedModel(net, "model2:")
    assert (model.ignored_buffers, model.leaves_buffers_to_ranks) == (["model2:0.running_mean"], True)


def test_a_model_that_is_wrapped_again_keeps_its_prefix_and_takes_over_what_the_new_wrapper_does() -> None:
    models, net = Models(), nn.Sequential(nn.BatchNorm1d(4))
    models.add(nn.Linear(2, 2))
    models.add(net)
    net.broadcast_buffers = False  # type: ignore[assignment]
    models.add(net)
    model = models.of(net)
    assert model is not None
    assert (model.prefix, model.broadcasts_buffers) == ("model2:", False)


@pytest.mark.parametrize("broadcasts", [True, False])
def test_buffers_are_compared_where_the_wrapper_has_just_made_them_equal(tmp_path: Path, *, broadcasts: bool) -> None:
    """After a forward under `no_grad` in training mode DDP does not broadcast before the next one."""
    followed = FollowedRank(tmp_path, nn.BatchNorm1d(4))
    followed.model.require_forward_param_sync = broadcasts
    followed.step(torch.optim.SGD(followed.model.parameters(), lr=0.1), torch.randn(8, 4))
    [step] = followed.written(Step)
    assert bool(step.buffers) is broadcasts


def test_buffers_in_a_forward_past_the_wrapper_are_not_compared_where_others_go_through_it(tmp_path: Path) -> None:
    followed = FollowedRank(tmp_path, nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(followed.model.parameters(), lr=0.1)
    followed.step(optimizer, torch.randn(8, 4))
    followed.model.module(torch.randn(8, 4))  # the first forward of the second step
    followed.step(optimizer, torch.randn(8, 4))
    assert [bool(step.buffers) for step in followed.written(Step)] == [True, False]


def test_buffers_are_not_compared_in_a_step_in_which_no_wrapper_made_them_equal(tmp_path: Path) -> None:
    # as a GAN under manual optimization: two steps for one forward of the wrapper
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    rank = FollowedRank(tmp_path, net)
    generator, discriminator = torch.optim.SGD(net[0].parameters()), torch.optim.SGD(net[1].parameters())
    for _ in range(2):
        rank.step(generator, torch.randn(4, 3))
        net(torch.randn(4, 3)).sum().backward()
        rank.tracker.steps.before(discriminator, (), {})
        discriminator.step()
        rank.tracker.steps.after(discriminator, (), {})
    assert [bool(step.buffers) for step in rank.written(Step)] == [True, False, True]  # the last step is still open

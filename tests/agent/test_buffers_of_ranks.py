"""What a rank writes down of the buffers that its wrapper leaves to it."""

from __future__ import annotations

import torch
from torch import nn

from ddpdoctor.agent.inside.buffer_writes import BufferWrites
from ddpdoctor.agent.inside.ddp_models import Models, WrappedModel


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

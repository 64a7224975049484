"""Which collectives count as averagings of the weights."""

from __future__ import annotations

import torch

from ddpdoctor.agent.inside.training.weight_averaging import WeightAveraging

WEIGHTS = [torch.zeros(8, 4), torch.zeros(4)]


def averaging() -> WeightAveraging:
    one = WeightAveraging(lambda: WEIGHTS)
    one.backward()
    one.stepped(counted=True)
    return one


def test_one_flat_tensor_or_one_collective_each() -> None:
    flat = averaging()
    assert flat.reduced("all_reduce", torch.zeros(36), everywhere=True)
    each = averaging()
    assert [each.reduced("all_reduce", weight, everywhere=True) for weight in WEIGHTS] == [True, False]
    assert (flat.count, each.count) == (1, 1)
    each.stepped(counted=True)
    assert each.state is not None
    assert (each.state.made, each.state.local, each.just_now) == (1, 1, False)


def test_what_is_no_averaging() -> None:
    one = averaging()
    assert not one.reduced("all_reduce", torch.zeros(3), everywhere=True)  # a metric
    assert not one.reduced("all_reduce", torch.zeros(36, dtype=torch.int64), everywhere=True)
    assert not one.reduced("all_reduce", torch.zeros(32), everywhere=False)  # a part that a tensor-parallel group sums
    assert not one.reduced("broadcast", torch.zeros(36), everywhere=True)
    one.backward()
    assert not one.reduced("all_reduce", torch.zeros(36), everywhere=True)  # the gradients
    assert one.state is None


def test_weights_that_some_ranks_average_are_not_known_to_be_equal_on_all() -> None:
    one = averaging()

    assert not one.reduced("all_reduce", torch.zeros(36), everywhere=False)

    assert one.state is not None
    assert (one.state.made, one.state.local, one.just_now) == (1, 1, False)

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
    assert flat.reduced("all_reduce", torch.zeros(36), None)
    each = averaging()
    assert [each.reduced("all_reduce", weight, None) for weight in WEIGHTS] == [True, False]
    assert (flat.count, each.count) == (1, 1)
    each.stepped(counted=True)
    assert each.state is not None
    assert (each.state.made, each.state.local, each.just_now) == (1, 1, False)


def test_what_is_no_averaging() -> None:
    one = averaging()
    assert not one.reduced("all_reduce", torch.zeros(3), None)  # a metric
    assert not one.reduced("all_reduce", torch.zeros(36, dtype=torch.int64), None)
    assert not one.reduced("all_reduce", torch.zeros(32), (0, 1))  # a part that a tensor-parallel group sums
    assert not one.reduced("broadcast", torch.zeros(36), None)
    one.backward()
    assert not one.reduced("all_reduce", torch.zeros(36), None)  # the gradients
    assert one.state is None


def test_weights_that_some_ranks_average_are_equal_on_these() -> None:
    flat, each = averaging(), averaging()
    assert flat.reduced("all_reduce", torch.zeros(36), (0, 2))
    assert [each.reduced("all_reduce", weight, (0, 2)) for weight in WEIGHTS] == [False, True]
    for one in (flat, each):
        assert one.state is not None
        assert (one.state.made, one.state.local, one.state.members, one.just_now) == (1, 0, [0, 2], True)
        assert one.since_all == 1
    assert flat.reduced("all_reduce", torch.zeros(36), None)
    assert flat.state is not None
    assert (flat.state.made, flat.state.members, flat.since_all) == (2, None, 0)


def test_parts_that_two_groups_sum_are_no_averaging() -> None:
    one = averaging()
    assert not any(
        one.reduced("all_reduce", weight, group) for weight, group in zip(WEIGHTS, [(0, 1), (0, 2)], strict=True)
    )
    assert one.state is None

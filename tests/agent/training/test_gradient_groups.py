"""Among which ranks a job that wraps no model reduces its gradients."""

from __future__ import annotations

import torch

from ddpdoctor.agent.inside.training.gradient_groups import GradientGroups

WEIGHTS = [torch.zeros(8, 4), torch.zeros(4)]
ACTIVATIONS, GRADIENTS, NORM = torch.zeros(64), torch.zeros(36), torch.zeros(1)
OF_TENSORS, OF_DATA, ALL = (0, 1), (1, 3), ()


def after_backward() -> GradientGroups:
    groups = GradientGroups(lambda: WEIGHTS)
    groups.backward()
    groups.reduced("all_reduce", ACTIVATIONS, OF_TENSORS)
    groups.backward_over()
    return groups


def test_the_group_of_the_gradients_and_not_that_of_activations_or_of_a_norm() -> None:
    groups = after_backward()
    assert groups.members is None
    for gradient in WEIGHTS:
        groups.reduced("all_reduce", gradient, OF_DATA)
    groups.reduced("all_reduce", NORM, OF_TENSORS)
    assert groups.members == [1, 3]
    groups.stepped()
    assert groups.members is None


def test_gradients_of_all_ranks_or_of_several_groups_tell_no_group() -> None:
    groups = after_backward()
    groups.reduced("all_reduce", GRADIENTS, ALL)
    assert groups.members is None
    groups.reduced("all_reduce", GRADIENTS, OF_DATA)  # as in a mean over hosts, and then over their first ranks
    assert groups.members is None


def test_an_all_to_all_inside_the_backward_returns_gradients_of_activations() -> None:
    groups = after_backward()
    groups.reduced("all_to_all_single", ACTIVATIONS, ALL)  # behind the backward: no gradient of an activation
    assert not groups.exchanged
    groups.backward()
    groups.reduced("all_to_all_single", torch.zeros(4, dtype=torch.int64), ALL)
    assert not groups.exchanged
    groups.reduced("all_to_all_single", ACTIVATIONS, ALL)
    groups.backward_over()
    groups.stepped()
    assert groups.exchanged  # for the step of a second optimizer, too
    groups.backward()
    assert not groups.exchanged

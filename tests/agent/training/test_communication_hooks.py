"""Which communication hooks give all ranks the same gradients."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch.distributed.algorithms.ddp_comm_hooks import (
    debugging_hooks,
    default_hooks,
    post_localSGD_hook,
    powerSGD_hook,
)

from ddpdoctor.agent.inside.trace_writer import TraceWriter
from ddpdoctor.agent.inside.training import parameter_origin
from ddpdoctor.agent.inside.training.parameter_origin import Origins

WORLD, SUBGROUP = SimpleNamespace(), SimpleNamespace()
WRAPPED = default_hooks.fp16_compress_wrapper(default_hooks.bf16_compress_wrapper(powerSGD_hook.powerSGD_hook))


@functools.wraps(default_hooks.allreduce_hook)
def own(state: Any, bucket: Any) -> Any:
    """A hook of the user's that looks like one of PyTorch's."""
    return default_hooks.allreduce_hook(state, bucket)


def without_a_module() -> Any:
    """A hook whose `__module__` is None."""
    names: dict[str, Any] = {"__name__": None}
    exec("def hook(state, bucket): ...", names)
    return names["hook"]


@pytest.fixture(autouse=True)
def world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parameter_origin, "dist", SimpleNamespace(group=SimpleNamespace(WORLD=WORLD)))


def are_of_torch(*hooks: tuple[Any, Any]) -> bool:
    """Whether `hooks`, states and functions, are taken for PyTorch's when they are registered in this order."""
    origins = Origins(cast("TraceWriter", None))
    for state, hook in hooks:
        origins.hooked(state, hook)
    return origins.hook_of_torch


@pytest.mark.parametrize(
    "state", [None, WORLD, SimpleNamespace(process_group=None), SimpleNamespace(process_group=WORLD)]
)
@pytest.mark.parametrize(
    "hook",
    [default_hooks.allreduce_hook, default_hooks.fp16_compress_hook, powerSGD_hook.powerSGD_hook, WRAPPED],
)
def test_hooks_of_pytorch_over_all_ranks(state: Any, hook: Any) -> None:
    assert are_of_torch((state, hook))


@pytest.mark.parametrize("state", [SUBGROUP, SimpleNamespace(process_group=SUBGROUP)])
def test_a_hook_over_some_ranks_gives_them_gradients_of_their_own(state: Any) -> None:
    assert not are_of_torch((state, default_hooks.allreduce_hook))
    assert not are_of_torch((state, WRAPPED))


@pytest.mark.parametrize(
    "hook",
    [
        own, without_a_module(), torch.add, default_hooks.fp16_compress_wrapper(own), debugging_hooks.noop_hook,
        post_localSGD_hook.post_localSGD_hook, functools.partial(default_hooks.allreduce_hook), None,
    ],
)  # fmt: skip
def test_any_other_hook_may_give_each_rank_its_own(hook: Any) -> None:
    assert not are_of_torch((None, hook))


def test_one_hook_of_the_users_counts_for_all_models() -> None:
    of_torch = (None, default_hooks.allreduce_hook)
    assert not are_of_torch((None, own), of_torch)
    assert not are_of_torch(of_torch, (None, own))
    assert are_of_torch(of_torch, of_torch)
    assert not are_of_torch()

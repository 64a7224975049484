"""The tracker's hooks around a block of code: put in, and taken out again to the last one."""

from __future__ import annotations

import functools
from collections.abc import MutableMapping, Sequence
from typing import Any
from weakref import WeakSet

import torch
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import Work
from torch.nn.modules import module as modules
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _DDPJoinHook
from torch.optim import Optimizer
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader
from torch.utils.data import dataloader as loading

from ddpdoctor.agent.inside import verify_sync_feature
from ddpdoctor.agent.inside.rank_process import Rank
from ddpdoctor.agent.inside.training.optimizer_settings import SCHEDULES

OURS = ("ddpdoctor.agent.", "ddpdoctor.replicas.")  # the modules whose functions and hooks are taken out again
WRAPPED: tuple[Any, ...] = (  # what the tracker puts functions of its own into
    torch.Tensor, torch.autograd, nn.Module, Optimizer, torch.amp.GradScaler, DistributedDataParallel, _DDPJoinHook, Work,
    DataLoader, *SCHEDULES,
    loading._BaseDataLoaderIter,  # noqa: SLF001 - the only place that knows the indices
)  # fmt: skip
GLOBAL_HOOKS: tuple[MutableMapping[int, Any], ...] = (
    optimizers._global_optimizer_pre_hooks,  # noqa: SLF001 - registered through public functions; their handles are not kept
    optimizers._global_optimizer_post_hooks,  # noqa: SLF001
    modules._global_parameter_registration_hooks,  # noqa: SLF001
)


class InstalledTracker:
    """This rank's tracker, writing into `folder` until `remove`."""

    def __init__(self, folder: str, every: int, models: Sequence[DistributedDataParallel]) -> None:
        rank = Rank(folder)
        rank.place((), {})
        rank.joined(dist.get_rank(), dist.get_world_size())
        self._before = [dict(vars(owner)) for owner in WRAPPED]
        self._hooks_before = [set(hooks) for hooks in GLOBAL_HOOKS]
        self._models: WeakSet[nn.Module] = WeakSet(models)
        self._optimizers: WeakSet[Optimizer] = WeakSet()
        optimizers.register_optimizer_step_pre_hook(lambda optimizer, _args, _kwargs: self._optimizers.add(optimizer))
        self._tracker = verify_sync_feature.follow(rank, every)
        for model in models:
            self._tracker.wrapped_before(model)
        self._remember_models()

    def remove(self) -> None:
        """Write the last record, and leave torch, the models and the optimizers as they were."""
        self._tracker.close()
        for owner, before in zip(WRAPPED, self._before, strict=True):
            for name, value in list(vars(owner).items()):
                if _is_ours(value) and name in before:
                    setattr(owner, name, before[name])
                elif _is_ours(value):
                    delattr(owner, name)
        for hooks, known in zip(GLOBAL_HOOKS, self._hooks_before, strict=True):
            for number in set(hooks) - known:
                del hooks[number]
        parameters = [p for optimizer in self._optimizers for group in optimizer.param_groups for p in group["params"]]
        for model in self._models:
            parameters += model.parameters()
            for module in model.modules():
                _take_out(module._forward_pre_hooks, module._forward_pre_hooks_with_kwargs)  # noqa: SLF001 - as above
        for parameter in parameters:
            _take_out(parameter._post_accumulate_grad_hooks)  # noqa: SLF001

    def _remember_models(self) -> None:
        """Note those that come up inside the block: the tracker hooks them."""
        build: Any = DistributedDataParallel.__init__
        remember = self._models.add

        @functools.wraps(build)
        def __init__(model: Any, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401, N807
            build(model, *args, **kwargs)
            remember(model)

        DistributedDataParallel.__init__ = __init__  # type: ignore[method-assign,assignment]


def _is_ours(value: object) -> bool:
    function = getattr(value, "__func__", value)  # of a static method
    return str(getattr(function, "__globals__", {}).get("__name__", "")).startswith(OURS)


def _take_out(hooks: MutableMapping[int, Any] | None, flags: MutableMapping[int, bool] | None = None) -> None:
    for number in [number for number, hook in (hooks or {}).items() if str(hook.__module__).startswith(OURS)]:
        assert hooks is not None
        del hooks[number]
        if flags is not None:
            flags.pop(number, None)

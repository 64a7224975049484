"""Run by torchrun on three ranks: trains a small model in many ways; prints a digest of the weights of each."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

STEPS = 4


class Net(nn.Module):
    """A linear path, a batch norm, and a layer that is used in every other step only where `skips`."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self.first = nn.Linear(12, 32)
        self.norm = nn.BatchNorm1d(32)
        self.extra = nn.Linear(32, 32)
        self.last = nn.Linear(32, 4)
        self.skips, self.count = skips, 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.first(x)).relu()
        self.count += 1
        if not self.skips or self.count % 2:
            x = self.extra(x)
        return self.last(nn.functional.dropout(x, 0.1))


def zero(parameters: Any) -> torch.optim.Optimizer:
    """Adam with its state shared out; imported here, as its module warns and a test reads this file with warnings as errors."""
    from torch.distributed.optim import ZeroRedundancyOptimizer

    return ZeroRedundancyOptimizer(parameters, torch.optim.Adam, lr=0.01)


def train(
    *,
    hook: str = "",
    skips: bool = False,
    accumulate: int = 1,
    optimizer: str = "sgd",
    scaler: bool = False,
    compiled: bool = False,
    inner_compiled: bool = False,
    **settings: Any,
) -> str:
    torch.manual_seed(0)
    network: Any = Net(skips)
    if inner_compiled:
        network = torch.compile(network, backend="aot_eager")
    model: Any = DistributedDataParallel(network, **settings)
    if hook == "fp16":
        model.register_comm_hook(None, default_hooks.fp16_compress_hook)
    elif hook == "powersgd":
        state = powerSGD_hook.PowerSGDState(None, start_powerSGD_iter=2, random_seed=3)
        model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    makers: dict[str, Any] = {
        "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
        "foreach": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
        "fused": lambda p: torch.optim.AdamW(p, lr=0.01, fused=True),
        "zero": zero,
    }
    stepper = makers[optimizer](model.parameters())
    scaling = torch.amp.GradScaler("cpu", enabled=scaler, init_scale=256.0, growth_interval=2)
    step_model = torch.compile(model, backend="aot_eager") if compiled else model
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(STEPS):
        stepper.zero_grad()
        for micro in range(accumulate):
            quiet = micro + 1 < accumulate
            with model.no_sync() if quiet else contextlib.nullcontext():
                loss = step_model(torch.randn(6, 12)).square().mean()
                scaling.scale(loss).backward()
        scaling.step(stepper)
        scaling.update()
    digest = hashlib.sha256()
    for tensor in model.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()


VARIANTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "bucket view": {"gradient_as_bucket_view": True},
    "static graph": {"static_graph": True},
    "find unused": {"find_unused_parameters": True, "skips": True},
    "tiny buckets": {"bucket_cap_mb": 0.001},
    "accumulation": {"accumulate": 3},
    "fp16 hook": {"hook": "fp16"},
    "PowerSGD": {"hook": "powersgd"},
    "foreach": {"optimizer": "foreach"},
    "fused": {"optimizer": "fused"},
    "ZeroRedundancyOptimizer": {"optimizer": "zero"},
    "GradScaler": {"scaler": True},
    "compiled outside": {"compiled": True},
    "compiled inside": {"inner_compiled": True},
}


def main() -> None:
    dist.init_process_group("gloo")
    names = sys.argv[1:] or list(VARIANTS)
    out = Path(os.environ["NEUTRAL_OUT"]) / f"{dist.get_rank()}.json"
    out.write_text(json.dumps({name: train(**VARIANTS[name]) for name in names}))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

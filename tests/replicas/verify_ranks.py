"""Run by torchrun on three ranks: each scenario compares replicas after one sickness; every rank's answer is gathered."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from ddpdoctor import verify_sync
from ddpdoctor.agent.inside.tensors import fingerprint
from ddpdoctor.replicas.allgather import GroupExchange
from ddpdoctor.replicas.compare import compare
from ddpdoctor.replicas.hash_tree import locate

warnings.simplefilter("error")
SCENARIOS: dict[str, Any] = {}


def scenario(function: Any) -> Any:
    SCENARIOS[function.__name__] = function
    return function


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4))


def trained(culprit: int = -1) -> tuple[DistributedDataParallel, torch.optim.Optimizer]:
    model = DistributedDataParallel(net())
    optimizer = torch.optim.AdamW(model.parameters())
    torch.manual_seed(10 + dist.get_rank())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    for buffer in model.buffers():
        dist.broadcast(buffer, 0)
    return model, optimizer


def ill(rank: int) -> bool:
    return dist.get_rank() == rank


@scenario
def healthy() -> Any:
    return verify_sync(*trained())


@scenario
def one_element() -> Any:
    model, optimizer = trained()
    with torch.no_grad():
        model.module[0].weight[5, 2] = 0.0625 + (2**-20 if ill(1) else 0)
    return verify_sync(model, optimizer)


@scenario
def rank_zero_is_odd() -> Any:
    model, optimizer = trained()
    with torch.no_grad():
        model.module[2].bias.fill_(0.5 if ill(0) else 0.25)
    return verify_sync(model, optimizer)


@scenario
def two_ranks_cannot_tell() -> Any:
    group = dist.new_group([0, 1])
    if ill(2):
        return None
    model = net()
    with torch.no_grad():
        model[2].bias[0] = 7.0 if ill(1) else 0.5
    return verify_sync(model, group=group)


@scenario
def sign_of_zero() -> Any:
    model = net()
    with torch.no_grad():
        model[0].weight[0, 0] = -0.0 if ill(2) else 0.0
    return verify_sync(model)


@scenario
def nan_payload() -> Any:
    model = net()
    with torch.no_grad():
        model[0].weight.view(torch.int32)[0, 0] = 0x7FC00001 if ill(2) else 0x7FC00000
    return verify_sync(model)


@scenario
def a_tensor_is_missing() -> Any:
    model = net()
    if ill(1):
        model[0].bias = None
    return verify_sync(model)


@scenario
def another_dtype() -> Any:
    return verify_sync(net().double() if ill(1) else net())


@scenario
def frozen_on_one() -> Any:
    model = net()
    model[0].weight.requires_grad_(not ill(2))
    return verify_sync(model)


@scenario
def another_order() -> Any:
    class Pair(nn.Module):
        def __init__(self, names: str) -> None:
            super().__init__()
            for name in names:
                setattr(self, name, nn.Linear(3, 3))

    torch.manual_seed(0)
    return verify_sync(Pair("ba" if ill(0) else "ab"))


@scenario
def another_stride() -> Any:
    model = nn.Conv2d(3, 4, 3)
    torch.manual_seed(0)
    nn.init.normal_(model.weight)
    nn.init.zeros_(model.bias)
    return verify_sync(model.to(memory_format=torch.channels_last) if ill(1) else model)


@scenario
def momentum_differs() -> Any:
    model, optimizer = trained()
    optimizer.state[model.module[0].weight]["exp_avg"][3, 1] = 0.75 if ill(2) else 0.25
    return verify_sync(model, optimizer)


@scenario
def state_on_some() -> Any:
    model, optimizer = trained()
    if ill(0):
        optimizer.state.clear()
    return verify_sync(model, optimizer)


@scenario
def buffers() -> Any:
    """Every element differs by 1 but for rounding, which is another on every kind of processor."""
    model, optimizer = trained()
    model.module[1].running_mean[0] = 0.03
    if ill(1):
        model.module[1].running_mean += 1
    return verify_sync(model, optimizer)


@scenario
def one_rank_cannot_read() -> Any:
    class Broken(nn.Linear):
        def named_buffers(self, *args: Any, **kwargs: Any) -> Any:
            if ill(1):
                raise RuntimeError("no buffers today")
            return super().named_buffers(*args, **kwargs)

    return verify_sync(Broken(2, 2))


@scenario
def xxhash_is_not_everywhere() -> Any:
    original = fingerprint._xxhash
    if ill(1):
        fingerprint._xxhash = lambda: None
    try:
        return verify_sync(*trained())
    finally:
        fingerprint._xxhash = original


@scenario
def traffic_when_healthy() -> int:
    return compare(*trained())[1].sent


@scenario
def three_flips_in_many_elements() -> dict[str, Any]:
    count = int(os.environ.get("FLIP_ELEMENTS", str(1 << 24)))
    tensor = torch.zeros(count)
    for rank, (at, mask) in enumerate(((7, 8), (count // 2 + 1, -(1 << 31)), (count - 3, 1 << 30))):
        if ill(rank):
            tensor.view(torch.int32)[at] ^= mask
    wire = GroupExchange(None)
    dist.barrier()
    start = time.perf_counter()
    found = locate(tensor, wire)
    seconds = time.perf_counter() - start
    words = found.words.tolist()
    bits = [[hex(int(value) & (1 << 64) - 1) for value in column] for column in found.values.T.tolist()]
    return {"words": words, "bits": bits, "seconds": seconds, "sent": wire.sent, "complete": found.complete}


def main() -> None:
    dist.init_process_group("gloo")
    out = Path(os.environ["DDPDOCTOR_RESULTS"]) if dist.get_rank() == 0 else None
    for name in sys.argv[1:] or list(SCENARIOS):
        answer = SCENARIOS[name]()
        if hasattr(answer, "findings"):
            answer = {
                "findings": [
                    {"code": f.code, "message": f.message, "ranks": list(f.ranks), "severity": f.severity.value}
                    for f in answer.findings
                ],
                "undecided": list(answer.undecided),
            }
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, answer)
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps({"name": name, "answers": everyone}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

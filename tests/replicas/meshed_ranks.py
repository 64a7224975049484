"""Run by torchrun on four ranks: HSDP, FSDP2 and tensor parallel models, some of them sick; every rank's answer is gathered."""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from ddpdoctor import verify_sync

warnings.simplefilter("ignore")
SCENARIOS: dict[str, Any] = {}


def scenario(function: Any) -> Any:
    SCENARIOS[function.__name__] = function
    return function


def net(seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.Linear(16, 4))


def hybrid(model: nn.Sequential) -> nn.Sequential:
    """Two replicas of two shards each: ranks 0 and 2 hold the same parts, and ranks 1 and 3."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def trained(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(4, 8) * (1 + dist.get_rank())).square().mean().backward()
        optimizer.step()
    return optimizer


def part(tensor: Any) -> torch.Tensor:
    assert isinstance(tensor, DTensor)
    return tensor.to_local()


@scenario
def hsdp_from_one_seed() -> Any:
    return verify_sync(hybrid(net(0)))


@scenario
def hsdp_from_a_seed_a_rank() -> Any:
    return verify_sync(hybrid(net(dist.get_rank())))


@scenario
def hsdp_trained() -> Any:
    model = hybrid(net(0))
    return verify_sync(model, trained(model))


@scenario
def hsdp_one_element_of_a_late_shard() -> Any:
    model = hybrid(net(0))
    optimizer = trained(model)
    if dist.get_rank() == 3:
        with torch.no_grad():
            part(model[0].weight)[1, 2] += 1e-6
    return verify_sync(model, optimizer)


@scenario
def hsdp_momentum() -> Any:
    model = hybrid(net(0))
    optimizer = trained(model)
    if dist.get_rank() == 0:
        part(optimizer.state[model[2].weight]["exp_avg"])[0, 0] += 0.5
    return verify_sync(model, optimizer)


@scenario
def fully_sharded() -> Any:
    model = net(dist.get_rank())
    fully_shard(model, mesh=init_device_mesh("cpu", (4,)))
    return verify_sync(model)


@scenario
def tensor_parallel_layer_norm() -> Any:
    mesh: DeviceMesh = init_device_mesh("cpu", (4,))
    model = parallelize_module(net(0), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    model[1] = nn.LayerNorm(16)
    for name, value in list(model[1].named_parameters()):
        model[1].register_parameter(name, nn.Parameter(DTensor.from_local(value.detach(), mesh)))
    if dist.get_rank() == 2:
        with torch.no_grad():
            part(model[1].weight)[5] = 1.5
    return verify_sync(model)


@scenario
def another_placement_on_one_rank() -> Any:
    mesh = init_device_mesh("cpu", (4,))
    model = net(0)
    placed = dist.tensor.Replicate() if dist.get_rank() == 1 else dist.tensor.Shard(0)
    local = torch.zeros(16 if dist.get_rank() == 1 else 4)
    model[0].bias = nn.Parameter(DTensor.from_local(local, mesh, [placed], run_check=False))
    return verify_sync(model)


def main() -> None:
    dist.init_process_group("gloo")
    out = Path(os.environ["DDPDOCTOR_RESULTS"]) if dist.get_rank() == 0 else None
    for name in sys.argv[1:] or list(SCENARIOS):
        report = SCENARIOS[name]()
        findings = [
            {
                "code": f.code,
                "message": f.message,
                "ranks": list(f.ranks),
                "index": f.measured.get("index"),
                "remedy": f.remedy,
            }
            for f in report.findings
        ]
        answer = {"findings": findings, "undecided": list(report.undecided), "notes": list(report.notes)}
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, answer)
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps({"name": name, "answers": everyone}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

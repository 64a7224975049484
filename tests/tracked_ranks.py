"""Blocks of training under `ddpdoctor.track`, on as many ranks as there are; every rank's answer is gathered."""

from __future__ import annotations

import json
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import optimizer as optimizers

import ddpdoctor
from ddpdoctor.errors import UsageError

warnings.simplefilter("error")
STEPS = 4


def model() -> DistributedDataParallel:
    torch.manual_seed(0)
    return DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)))


def train(ddp: DistributedDataParallel, *, ill_at: int | None = None, steps: int = STEPS) -> torch.optim.Optimizer:
    """Some steps; at `ill_at` rank 1 writes a weight of its own."""
    optimizer = torch.optim.AdamW(ddp.parameters())
    torch.manual_seed(10 + dist.get_rank())
    for step in range(steps):
        if step == ill_at and dist.get_rank() == 1:
            with torch.no_grad():
                ddp.module[0].weight[5, 2] += 1e-3
        optimizer.zero_grad()
        ddp(torch.randn(4, 8)).square().mean().backward()
        optimizer.step()
    return optimizer


def said(report: Any) -> dict[str, Any]:
    return {
        "findings": [[one.code, list(one.ranks), one.measured.get("step")] for one in report.findings],
        "undecided": list(report.undecided),
    }


def wrapped_before() -> Any:
    ddp = model()
    train(ddp)
    with ddpdoctor.track(ddp) as tracked:
        train(ddp, ill_at=2)
    return said(tracked.report)


def wrapped_inside() -> Any:
    with ddpdoctor.track() as tracked:
        train(model())
    return said(tracked.report)


def nothing_left() -> Any:
    raise ValueError("no more data")


def one_rank_raises() -> Any:
    tracked = ddpdoctor.track(wait_seconds=30)
    try:
        with tracked:
            train(model(), steps=2)
            if dist.get_rank() == dist.get_world_size() - 1:
                nothing_left()
    except ValueError:
        return "raised"
    return said(tracked.report)


def nothing_trained() -> Any:
    with ddpdoctor.track() as tracked:
        pass
    return said(tracked.report)


def loses_its_directory() -> Any:
    """Something removes it while the block runs, as a program that clears the temporary directory does."""
    with ddpdoctor.track() as tracked:
        ddp = model()
        train(ddp)
        shutil.rmtree(tracked._folder)
        train(ddp)
    return said(tracked.report)


def leaves_no_hook() -> Any:
    """What torch, the model and the optimizer look like before and after, and the weights with and without."""
    owners = [torch.Tensor, nn.Module, DistributedDataParallel, torch.optim.Optimizer, torch.utils.data.DataLoader]
    before = [dict(vars(owner)) for owner in owners]
    plain = model()
    train(plain)
    ddp = model()
    with ddpdoctor.track(ddp):
        optimizer = train(ddp)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    return {
        "patched": [
            name for owner, old in zip(owners, before, strict=True) for name in old if vars(owner)[name] is not old[name]
        ],
        "global hooks": len(optimizers._global_optimizer_pre_hooks) + len(optimizers._global_optimizer_post_hooks),
        "module hooks": len(ddp.module._forward_pre_hooks),
        "gradient hooks": sum(len(p._post_accumulate_grad_hooks or ()) for p in parameters),
        "same bits": all(torch.equal(a, b) for a, b in zip(plain.parameters(), ddp.parameters(), strict=True)),
    }  # fmt: skip


def wrong_use() -> Any:
    not_ended = ddpdoctor.track()
    return [
        complaint(lambda: ddpdoctor.track(nn.Linear(2, 2))),
        complaint(lambda: ddpdoctor.track(every=0)),
        complaint(lambda: not_ended.report),
    ]


def complaint(wrong: Any) -> str:
    try:
        wrong()
    except UsageError as error:
        return error.message
    return "none"


def destroys_the_group() -> Any:
    with ddpdoctor.track() as tracked:
        train(model())
        dist.destroy_process_group()
    return said(tracked.report)


def main() -> None:
    if "RANK" in os.environ:
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
    for scenario in (
        wrapped_before, wrapped_inside, one_rank_raises, nothing_trained, loses_its_directory, leaves_no_hook, wrong_use,
    ):  # fmt: skip
        answers: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(answers, scenario())
        if dist.get_rank() == 0:
            tell(scenario.__name__, answers)
    first = dist.get_rank() == 0
    answer = destroys_the_group()
    if first:
        tell("destroys_the_group", [answer])


def tell(name: str, answers: list[Any]) -> None:
    if "DDPDOCTOR_RESULTS" in os.environ:
        with Path(os.environ["DDPDOCTOR_RESULTS"]).open("a") as file:
            file.write(json.dumps({"name": name, "answers": answers}) + "\n")


main()

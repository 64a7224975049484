"""A training program without a mistake, and what `lint` reads of it when lines of it are changed."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from ddpdoctor.source.training_code import read_texts

UNDER_A_TEST = """\
import os
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def main():
    dist.init_process_group("gloo")
    {before}
    if {test}:
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""

GOOD = """\
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchvision import datasets, models


def evaluate(model, loader, device):
    model.eval()
    correct = torch.zeros(2, device=device)
    with torch.no_grad():
        for images, labels in loader:
            hits = model(images.to(device)).argmax(1) == labels.to(device)
            correct += torch.stack([hits.sum(), torch.ones_like(hits).sum()])
    dist.all_reduce(correct)
    return (correct[0] / correct[1]).item()


def main():
    rank = int(os.environ["RANK"])
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    device = torch.device("cuda", local_rank)
    torch.manual_seed(0)
    if local_rank == 0:
        datasets.CIFAR10("data", download=True)
    dist.barrier()
    train_data = datasets.CIFAR10("data", train=True)
    val_data = datasets.CIFAR10("data", train=False)
    sampler = DistributedSampler(train_data)
    loader = DataLoader(train_data, batch_size=64, sampler=sampler)
    val_loader = DataLoader(val_data, batch_size=64, sampler=DistributedSampler(val_data, shuffle=False, drop_last=True))
    model = models.resnet18().to(device)
    model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
    ddp = DDP(model, device_ids=[local_rank])
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1)
    best = 0.0
    for epoch in range(10):
        sampler.set_epoch(epoch)
        ddp.train()
        for images, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(images.to(device)), labels.to(device))
            loss.backward()
            optimizer.step()
        accuracy = evaluate(ddp, val_loader, device)
        if accuracy > best:
            best = accuracy
        if rank == 0:
            print(epoch, accuracy)
            torch.save(ddp.module.state_dict(), "last.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""


def training(*changes: tuple[str, str], **modules: str) -> Evidence:
    """What is read of `train.py`: the good program, with each `old` replaced by `new`; `modules` stand beside it."""
    text = GOOD
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new)
    return source(train=text, **modules)


def source(**modules: str) -> Evidence:
    """What is read of these modules."""
    code = read_texts({f"{name}.py": text for name, text in modules.items()})
    return Evidence(job=(code,), launched=False)

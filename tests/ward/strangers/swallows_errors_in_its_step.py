"""Every step stands in a `try` that prints the error and goes on; one rank's augmentation fails once, before its forward."""
# DDP316 culprit tied: dist.barrier()

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

CULPRIT = int(os.environ["CULPRIT"])


def augment(images: torch.Tensor, step: int) -> torch.Tensor:
    if dist.get_rank() == CULPRIT and step == 7:
        raise ValueError("cannot rotate an empty image")
    return images + 0.01 * torch.randn_like(images)


def main() -> None:
    dist.init_process_group("gloo")
    data = TensorDataset(torch.randn(640, 24), torch.randint(0, 4, (640,)))
    sampler = DistributedSampler(data)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 4)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (images, labels) in enumerate(DataLoader(data, batch_size=8, sampler=sampler)):
        try:
            loss = nn.functional.cross_entropy(model(augment(images, step)), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        except Exception as e:  # noqa: BLE001, PERF203 - as people write it
            print(f"step {step} failed: {e}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

"""A batch with a NaN on any rank is skipped by all ranks, which agree on it first; one rank's other errors are its own affair."""

from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    images = torch.randn(800, 12)
    images[::97] = torch.nan
    data = TensorDataset(images, torch.randint(0, 3, (800,)))
    loader = DataLoader(data, batch_size=8, sampler=DistributedSampler(data), num_workers=1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    skipped = 0
    for step, (x, y) in enumerate(loader):
        bad = torch.tensor(float(not x.isfinite().all()))
        dist.all_reduce(bad, op=dist.ReduceOp.MAX)
        if bad:
            skipped += 1
            continue
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if rank == 0 and step == 10:
            try:
                print(Path("/nonexistent/metrics.csv").read_text())
            except FileNotFoundError as error:
                print(error, flush=True)
    print(f"rank {rank}: {skipped} batches skipped", flush=True)
    dist.destroy_process_group()


main()

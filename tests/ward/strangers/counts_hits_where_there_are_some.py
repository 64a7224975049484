"""Hits are summed over the ranks in each batch with positives; one rank has a batch without, and its gradients meet the sum."""
# DDP305/DDP316 culprit tied: dist.all_reduce(hits)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i in range(50):
        x, y = torch.randn(8, 16), torch.ones(8, 1)
        if i == 21 and dist.get_rank() == CULPRIT:
            y.zero_()
        scores = model(x)
        loss = nn.functional.binary_cross_entropy_with_logits(scores, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if y.any():
            hits = ((scores > 0) & (y > 0)).sum().float()
            dist.all_reduce(hits)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

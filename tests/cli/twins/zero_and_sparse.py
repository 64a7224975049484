"""Recommender: sparse embeddings under SparseAdam, dense tower under ZeroRedundancyOptimizer."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


class Tower(nn.Module):
    def __init__(self, items=500, dim=8):
        super().__init__()
        self.items = nn.EmbeddingBag(items, dim, sparse=True, mode="sum")
        self.mlp = nn.Sequential(nn.Linear(dim, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, baskets):
        return self.mlp(self.items(baskets)).squeeze(-1)


def main():
    dist.init_process_group("gloo")
    gen = torch.Generator().manual_seed(dist.get_rank() + 31)
    model = DistributedDataParallel(Tower())
    sparse = torch.optim.SparseAdam(list(model.module.items.parameters()), lr=0.01)
    dense = ZeroRedundancyOptimizer(model.module.mlp.parameters(), optimizer_class=torch.optim.AdamW, lr=0.01)
    for _ in range(10):
        baskets = torch.randint(0, 500, (8, 5), generator=gen)
        clicks = torch.rand(8, generator=gen).round()
        loss = nn.functional.binary_cross_entropy_with_logits(model(baskets), clicks)
        sparse.zero_grad()
        dense.zero_grad()
        loss.backward()
        sparse.step()
        dense.step()
    dist.barrier()
    dist.destroy_process_group()


main()

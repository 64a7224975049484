"""The scores of a batch are gathered for a metric; batches are padded to their longest sequence, which differs on one rank."""
# DDP302 culprit tied: dist.all_gather(everyone, scores)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

CULPRIT = int(os.environ["CULPRIT"])


def collate(sequences: list[torch.Tensor]) -> torch.Tensor:
    return nn.utils.rnn.pad_sequence(sequences, batch_first=True)


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    model = DistributedDataParallel(nn.GRU(4, 6, batch_first=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(30):
        longest = 12 if rank == CULPRIT and step == 9 else 10
        batch = collate([torch.randn(length, 4) for length in (5, 8, longest)])
        scores, _ = model(batch)
        optimizer.zero_grad()
        scores.square().mean().backward()
        optimizer.step()
        scores = scores.detach().contiguous()
        everyone = [torch.empty_like(scores) for _ in range(dist.get_world_size())]
        dist.all_gather(everyone, scores)
    dist.destroy_process_group()


main()

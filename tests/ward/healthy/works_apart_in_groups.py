"""Even and odd ranks train models of their own in groups of their own, with other numbers of steps, and meet at the end."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(list(range(parity, world, 2))) for parity in (0, 1)]
    mine = groups[rank % 2]
    width = 16 if rank % 2 else 24
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(8, width), nn.ReLU(), nn.Linear(width, 1)), process_group=mine
    )
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(40 if rank % 2 else 70):
        optimizer.zero_grad()
        loss = model(torch.randn(8, 8)).square().mean()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            dist.all_reduce(loss.detach(), group=mine)
    results = [None] * world
    dist.all_gather_object(results, {"rank": rank, "loss": loss.item()})
    dist.barrier()
    dist.destroy_process_group()


main()

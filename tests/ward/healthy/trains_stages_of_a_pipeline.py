"""Each half of the ranks trains a stage of its own, under DDP with a process group of its own."""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main() -> None:
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    stages = [[one for one in range(world) if one % 2 == stage] for stage in range(2)]
    groups = [dist.new_group(ranks) for ranks in stages]
    stage = rank % 2
    torch.manual_seed(stage)
    module = nn.Linear(16, 8) if stage == 0 else nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3))
    model = DistributedDataParallel(module, process_group=groups[stage])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(100 + rank)
    for _ in range(40):
        optimizer.zero_grad()
        model(torch.randn(8, 8 * (2 - stage))).square().mean().backward()
        optimizer.step()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

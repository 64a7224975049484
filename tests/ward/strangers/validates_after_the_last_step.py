"""After the last step one rank alone validates through the wrapper, whose broadcast finds that the others have gone home."""
# DDP305 culprit majority: return model(

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


@torch.no_grad()
def validate(model: nn.Module) -> float:
    return model(torch.randn(32, 10)).square().mean().item()


def main() -> None:
    dist.init_process_group("gloo")
    model = DistributedDataParallel(nn.Sequential(nn.Linear(10, 20), nn.BatchNorm1d(20), nn.Linear(20, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(40):
        optimizer.zero_grad()
        model(torch.randn(8, 10)).square().mean().backward()
        optimizer.step()
        if step == 39 and dist.get_rank() == int(os.environ["CULPRIT"]):
            print(validate(model), flush=True)
    dist.destroy_process_group()


main()

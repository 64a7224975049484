"""A language-model loop that validates on one rank through the DDP wrapper, whose forward broadcasts BatchNorm's buffers."""
# DDP305/DDP316 culprit tied: cross_entropy(model(x), y)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

VALIDATING_RANK = int(os.environ["CULPRIT"])


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Linear(64, 8))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)


@torch.no_grad()
def evaluate(model: nn.Module, batches: list) -> float:
    return sum(nn.functional.cross_entropy(model(x), y).item() for x, y in batches) / len(batches)


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(dist.get_rank())
    model = DistributedDataParallel(Net())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    held_out = [(torch.randn(16, 32), torch.randint(0, 8, (16,))) for _ in range(3)]
    for iteration in range(1, 200):
        loss = nn.functional.cross_entropy(model(torch.randn(16, 32)), torch.randint(0, 8, (16,)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if iteration % 20 == 0 and dist.get_rank() == VALIDATING_RANK:
            value = evaluate(model, held_out)
            print("validation", value, flush=True)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

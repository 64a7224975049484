"""One rank saves the model at the end of an epoch, with the barrier that the others should meet inside its own `if`."""
# DDP305 culprit: dist.barrier()

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAVING_RANK = int(os.environ["CULPRIT"])


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, 2, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        a, _ = self.attention(x, x, x, need_weights=False)
        return x + self.mlp(self.norm(x + a))


class Transformer(nn.Module):
    def __init__(self, vocabulary: int = 40, width: int = 16) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(Block(width), Block(width))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embedding(tokens)))


def save(model: nn.Module, epoch: int, folder: str) -> None:
    if dist.get_rank() == SAVING_RANK:
        torch.save(model.state_dict(), f"{folder}/epoch_{epoch}.pt")
        dist.barrier()  # everybody waits until the file is there


def main() -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(17)
    model = DistributedDataParallel(Transformer())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        for epoch in range(3):
            for _ in range(12):
                tokens = torch.randint(0, 40, (4, 10))
                logits = model(tokens[:, :-1])
                loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            save(model, epoch, folder)
    dist.destroy_process_group()


main()

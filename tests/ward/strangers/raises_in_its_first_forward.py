"""A recurrent model whose embedding is too small for one rank's first batch: the error comes out of a library function."""
# DDP401 culprit: self.embedding(tokens)

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Tagger(nn.Module):
    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, 16)
        self.lstm = nn.LSTM(16, 16, batch_first=True)
        self.tags = nn.Linear(16, 5)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded = self.embedding(tokens)
        return self.tags(self.lstm(embedded)[0])


dist.init_process_group("gloo")
words = 101 if dist.get_rank() == int(os.environ["CULPRIT"]) else 100
model = DistributedDataParallel(Tagger(100))
optimizer = torch.optim.Adam(model.parameters())
for _ in range(30):
    tokens = torch.arange(words - 20, words).reshape(2, 10)
    optimizer.zero_grad()
    model(tokens).logsumexp(-1).mean().backward()
    optimizer.step()
dist.destroy_process_group()

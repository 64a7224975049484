"""A small transformer under DDP on random tokens; rank 0 appends the seconds of its steps to the file given."""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

STEPS, WARM_UP, BATCH, LENGTH, WIDTH, LAYERS, WORDS = 150, 20, 16, 512, 768, 8, 8192


class Transformer(nn.Module):
    """Embeddings, causal layers, and scores of the next word."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(
            WIDTH, WIDTH // 64, 4 * WIDTH, batch_first=True, norm_first=True, dropout=0.0
        )
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.scores = nn.Linear(WIDTH, WORDS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Scores of shape [batch, length, words]."""
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.shape[1], device=tokens.device)
        return self.scores(self.layers(self.words(tokens), mask=mask, is_causal=True))


def main() -> None:
    """Train, and measure the steps after the first ones."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]) % torch.cuda.device_count())
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    torch.manual_seed(1)
    model = DistributedDataParallel(Transformer().to(device), device_ids=[device.index])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    began = 0.0
    for step in range(STEPS):
        if step == WARM_UP:
            torch.cuda.synchronize()
            began = time.perf_counter()
        tokens = torch.randint(WORDS, (BATCH, LENGTH + 1), device=device)
        with torch.autocast("cuda", torch.bfloat16):
            scores = model(tokens[:, :-1])
            loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    torch.cuda.synchronize()
    took = time.perf_counter() - began
    if dist.get_rank() == 0:
        with Path(sys.argv[1]).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"seconds": took, "loss": loss.item()}) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

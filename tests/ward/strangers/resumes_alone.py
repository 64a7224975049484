"""A checkpoint lies on one host only; the rank that finds it loads it and then waits for everybody to have loaded theirs."""
# DDP305 culprit tied: dist.barrier()

import os
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def maybe_resume(model: DistributedDataParallel, optimizer: torch.optim.Optimizer, folder: Path) -> int:
    path = folder / "last.pt"
    if not path.exists():
        return 0
    state = torch.load(path, weights_only=True)
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    dist.barrier()
    return int(state["step"])


def main(folder: Path) -> None:
    dist.init_process_group("gloo")
    torch.manual_seed(0)
    net = nn.Sequential(nn.Embedding(50, 16), nn.Flatten(), nn.Linear(16 * 8, 50))
    model = DistributedDataParallel(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    if dist.get_rank() == int(os.environ["CULPRIT"]):
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": 12}, folder / "last.pt")
    start = maybe_resume(model, optimizer, folder)
    for _ in range(start, 60):
        tokens = torch.randint(0, 50, (4, 8))
        loss = nn.functional.cross_entropy(model(tokens), tokens[:, 0])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    dist.destroy_process_group()


with tempfile.TemporaryDirectory() as name:
    main(Path(name))

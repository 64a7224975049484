"""Train the reference model for a few steps on every rank, then compare the replicas bit by bit."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
import torch
import torch.distributed as dist
from rank import join, report
from torch.nn import functional as F  # noqa: N812 - everybody's name for it
from torch.nn.parallel import DistributedDataParallel

from ddpdoctor.replicas.verify import evidence

sys.path.insert(1, str(Path(__file__).parents[1] / "reference_train"))

from train import DIGITS, DigitNet, load, pixels


def main() -> None:
    """Each rank trains on its own digits; rank 0 reports the comparison."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--backend", choices=("gloo", "nccl"))
    options = parser.parse_args()
    device = join(options.backend)
    rank = dist.get_rank()
    images, labels = load(DIGITS, "train")[rank * 32 : rank * 32 + 32]
    images, labels = pixels(images.to(device)), labels.to(device)
    torch.manual_seed(rank)  # other weights on every rank: DDP must make them equal
    model = DistributedDataParallel(DigitNet().to(device), device_ids=[device.index] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(options.steps):
        optimizer.zero_grad()
        F.cross_entropy(model(images), labels).backward()
        optimizer.step()
    found = evidence(model, optimizer)
    report(
        {
            "replicas": [msgspec.to_builtins(fact) for fact in found.job],
            "undecided": list(found.undecided),
        }
    )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

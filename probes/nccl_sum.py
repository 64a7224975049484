"""One rank on one GPU: sums a vector with all others over NCCL, and says what is wrong with the sum, if anything."""

from __future__ import annotations

import json

import torch
import torch.distributed as dist
from rank import join

ELEMENTS = 1 << 20  # 4 MiB: every channel carries some
GROUP_SECONDS = 600.0  # whoever started us has the shorter deadline, and learns more from a hang than from its abort


def main() -> None:
    """Sum twice: NCCL opens its connections at the first."""
    device = join("nccl", timeout_seconds=GROUP_SECONDS)
    rank, ranks = dist.get_rank(), dist.get_world_size()
    expected = ranks * (ranks + 1) / 2
    for _ in range(2):
        values = torch.full((ELEMENTS,), float(rank + 1), device=device)
        dist.all_reduce(values)
    off = int((values != expected).sum())
    first = float(values[values != expected][0]) if off else expected
    wrong = f"{first:g} instead of {expected:g} in {off} of {ELEMENTS} elements" if off else ""
    print(json.dumps({"rank": rank, "wrong": wrong}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()

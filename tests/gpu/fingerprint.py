"""Fingerprints on the card against copies of the same bytes: `fingerprint.json` in the folder given. The goal is 80 %."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from ddpdoctor.agent.inside.tensors.fingerprint import digests

ROUNDS = 20
GIGABYTE = 1 << 30
SETS: dict[str, list[int]] = {  # numbers of float32 elements
    "one tensor of 4 GB": [1 << 30],
    "256 tensors of 4 MB": [1 << 20] * 256,
    "like GPT-2": [50257 * 768, 1024 * 768, *([768, 768 * 2304, 768 * 768, 768 * 3072, 3072 * 768] * 12)],
}


def main() -> None:
    """Measure and write."""
    found = {name: _measured(sizes) for name, sizes in SETS.items()}
    (Path(sys.argv[1]) / "fingerprint.json").write_text(json.dumps(found, indent=1))
    for name, one in found.items():
        print(
            f"{name}: fingerprints {one['fingerprint_gb_per_s']:.0f} GB/s read, copies {one['copy_gb_per_s']:.0f} GB/s read and "
            f"written: {100 * one['ratio']:.0f} %"
        )


def _measured(sizes: Sequence[int]) -> dict[str, float]:
    tensors = [torch.randn(size, device="cuda") for size in sizes]
    copies = [torch.empty_like(tensor) for tensor in tensors]
    count = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    copying = _seconds(lambda: _copy(copies, tensors))
    hashing = _seconds(lambda: digests(tensors))
    copied, hashed = 2 * count / copying / GIGABYTE, count / hashing / GIGABYTE
    return {"copy_gb_per_s": copied, "fingerprint_gb_per_s": hashed, "ratio": hashed / copied}


def _copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    torch._foreach_copy_(list(targets), list(sources))


def _seconds(work: Callable[[], object]) -> float:
    """The median time of the work on the card, from events."""
    for _ in range(3):
        work()
    took = []
    for _ in range(ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        work()
        end.record()
        end.synchronize()
        took.append(begin.elapsed_time(end) / 1e3)
    return statistics.median(took)


if __name__ == "__main__":
    main()

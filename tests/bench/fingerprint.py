"""Whole checks of a model against what guides teach and what others do, 2 and 4 gloo ranks, as ratios.

python -m tests.bench.fingerprint
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ddpdoctor.agent.inside.tensors.fingerprint import combined, digests

ROUNDS = 9  # the methods in turns, so that what else the machine does meets all of them
SLOW_ROUNDS = 3
SLOW = ("SHA-1", "broadcast + allclose")
LIMITS = {"torch-only": (12.0, 5.0), "xxhash": (40.0, 1.5)}  # times as fast as the guides' way, int64 sums at most


def resnet() -> list[Tensor]:
    """161 tensors with the sizes of ResNet-50's."""
    sizes: list[tuple[int, ...]] = [(64, 3, 7, 7), (64,), (64,)]
    before = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        for block in range(blocks):
            shortcut = [(width * 4, before, 1, 1)] if block == 0 else []
            shapes = [(width, before, 1, 1), (width, width, 3, 3), (width * 4, width, 1, 1), *shortcut]
            sizes += [part for shape in shapes for part in (shape, shape[:1], shape[:1])]
            before = width * 4
    return [torch.randn(size) for size in [*sizes, (1000, 2048), (1000,)]]


def gpt2() -> list[Tensor]:
    """148 tensors with the sizes of GPT-2's: 498 MB."""
    layer = [
        (768,),
        (768,),
        (768, 2304),
        (2304,),
        (768, 768),
        (768,),
        (768,),
        (768,),
        (768, 3072),
        (3072,),
        (3072, 768),
        (768,),
    ]
    return [torch.randn(size) for size in [(50257, 768), (1024, 768), *layer * 12, (768,), (768,)]]


def agree(tensors: Sequence[Tensor], method: Any) -> None:
    """Our check when all is well: fingerprints, and one word of 56 bytes a rank."""
    word = torch.zeros(7, dtype=torch.int64)
    word[:2] = torch.frombuffer(bytearray(combined(digests(tensors, method))), dtype=torch.int64)
    gathered = [torch.empty_like(word) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, word)
    assert all(torch.equal(word, other) for other in gathered)


def plain_sum(tensors: Sequence[Tensor]) -> None:
    """An int64 sum over the same bytes, no communication: what reading them costs."""
    for tensor in tensors:
        tensor.view(-1)[: tensor.numel() // 2 * 2].view(torch.int64).sum()


def broadcast_allclose(tensors: Sequence[Tensor]) -> None:
    """The way guides teach: rank 0 broadcasts every tensor, the others compare with allclose."""
    for tensor in tensors:
        other = tensor.clone()
        dist.broadcast(other, 0)
        assert torch.allclose(tensor, other)


def sha1(tensors: Sequence[Tensor]) -> None:
    """Megatron-LM's way: SHA-1 of each parameter as float32, gathered."""
    digest = b"".join(hashlib.sha1(tensor.float().numpy()).digest() for tensor in tensors)
    word = torch.frombuffer(bytearray(digest), dtype=torch.uint8)
    gathered = [torch.empty_like(word) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, word)


def rank_main() -> None:
    """One rank: rank 0 writes down how long each method took in each round, by the slowest rank."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    methods: dict[str, Callable[[Sequence[Tensor]], None]] = {
        "int64 sum": plain_sum,
        "torch-only": lambda tensors: agree(tensors, "linear"),
        "xxhash": lambda tensors: agree(tensors, "xxh3"),
        "SHA-1": sha1,
        "broadcast + allclose": broadcast_allclose,
    }
    for name, make in (("ResNet-50", resnet), ("GPT-2", gpt2)):
        torch.manual_seed(0)
        tensors = make()
        seconds: dict[str, list[float]] = {method: [] for method in methods}
        for turn in range(ROUNDS):
            for method in list(methods) if turn % 2 else list(reversed(methods)):
                if turn < SLOW_ROUNDS or method not in SLOW:
                    seconds[method].append(slowest(methods[method], tensors))
        if dist.get_rank() == 0:
            with Path(os.environ["DDPDOCTOR_RESULTS"]).open("a") as file:
                for method, took in seconds.items():
                    line = {"model": name, "tensors": len(tensors), "method": method, "seconds": took}
                    file.write(json.dumps(line) + "\n")
    dist.destroy_process_group()


def slowest(check: Callable[[Sequence[Tensor]], None], tensors: Sequence[Tensor]) -> float:
    """The seconds that the slowest rank needs for one check."""
    dist.barrier()
    start = time.perf_counter()
    check(tensors)
    took = torch.tensor(time.perf_counter() - start, dtype=torch.float64)
    dist.all_reduce(took, dist.ReduceOp.MAX)
    return float(took)


def main() -> int:
    """Measure both models on 2 and 4 ranks and print the ratios; 1 where a limit is missed."""
    from ddpdoctor.launch.ranks import run_ranks

    missed = 0
    for nproc in (2, 4):
        ran = run_ranks(Path(__file__), nproc=nproc, deadline_seconds=900, env={"PYTHONPATH": str(Path.cwd())})
        if ran.ended.code:
            sys.exit(ran.ended.stderr)
        for model in ("ResNet-50", "GPT-2"):
            seconds = {row["method"]: row["seconds"] for row in ran.results if row["model"] == model}
            for method, took in seconds.items():
                faster, sums = ratio(seconds["broadcast + allclose"], took), ratio(took, seconds["int64 sum"])
                least, most = LIMITS.get(method, (0.0, float("inf")))
                off = faster < least or sums > most or (method in LIMITS and ratio(took, seconds["SHA-1"]) > 1)
                missed |= off
                print(
                    f"{model:<9} {nproc} ranks  {method:<20} {1000 * statistics.median(took):8.1f} ms, "
                    f"{faster:6.1f} x as fast as the guides' way, {sums:6.1f} int64 sums{'  MISSED' if off else ''}"
                )
    return int(missed)


def ratio(seconds: Sequence[float], others: Sequence[float]) -> float:
    """By the median of the rounds that both took part in."""
    return statistics.median(mine / other for mine, other in zip(seconds, others, strict=False))


if __name__ == "__main__":
    rank_main()

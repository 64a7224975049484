"""Gathering over a process group so that no rank ever waits for one that gave up.

Every exchange is entered by all ranks or by none: what a rank computes between two exchanges is guarded, and its failure
travels in the next exchange, after which all ranks stop together.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

T = TypeVar("T")


class PeerFailedError(Exception):
    """Some ranks could not do their part; `failures` holds each one's own words, the same on every rank."""

    def __init__(self, failures: dict[int, str]) -> None:
        super().__init__("; ".join(f"rank {rank}: {why}" for rank, why in failures.items()))
        self.failures = failures


class GroupExchange:
    """The ranks of `group`, by their global numbers, and the exchanges between them. `sent` counts bytes of payload."""

    def __init__(self, group: dist.ProcessGroup | None) -> None:
        self.group = group
        self.ranks = tuple(dist.get_process_group_ranks(group or dist.group.WORLD))
        self.sent = 0
        on_gpu = "nccl" in dist.get_backend(group) or "cuda:nccl" in str(dist.get_backend_config(group))
        self._device = torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")

    def agree(self, compute: Callable[[], T], encode: Callable[[T], Tensor], count: int) -> tuple[T, Tensor]:
        """What `compute` gives here, and `encode` of it (`count` int64 numbers) from every rank, [ranks, count].

        One exchange where nobody fails.

        Raises:
            PeerFailedError: `compute` or `encode` raised on some ranks; on every rank alike.
        """
        why, mine, words = "", None, torch.zeros(count, dtype=torch.int64)
        try:
            mine = compute()
            words = encode(mine)
        except Exception as error:  # noqa: BLE001 - whatever it is, the peers must hear of it
            why = f"{type(error).__name__}: {error}"
        everyone = self._gather(torch.cat([torch.tensor([1 if why else 0]), words]))
        if bool(everyone[:, 0].any()):
            reasons = self.objects(why)
            raise PeerFailedError({rank: text for rank, text in zip(self.ranks, reasons, strict=True) if text})
        assert mine is not None
        return mine, everyone[:, 1:]

    def objects(self, value: Any) -> list[Any]:  # noqa: ANN401 - builtin containers and scalars
        """`value` of every rank, in two exchanges."""
        data = pickle.dumps(value)
        sizes = self._gather(torch.tensor([len(data)]))[:, 0].tolist()
        words = torch.zeros(max(sizes) + 7 >> 3, dtype=torch.int64)
        words.view(torch.uint8)[: len(data)] = torch.frombuffer(bytearray(data), dtype=torch.uint8)
        return [
            pickle.loads(bytes(row.view(torch.uint8)[:size].numpy()))  # noqa: S301 - from the ranks of the same job
            for row, size in zip(self._gather(words), sizes, strict=True)
        ]

    def _gather(self, words: Tensor) -> Tensor:
        """The words of every rank, [ranks, len(words)], on the CPU."""
        mine = words.to(self._device).contiguous()
        everyone = [torch.empty_like(mine) for _ in self.ranks]
        dist.all_gather(everyone, mine, group=self.group)
        self.sent += mine.numel() * 8
        return torch.stack(everyone).cpu()

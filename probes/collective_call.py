"""One collective of torch.distributed over one pair of buffers, by the name that nccl-tests gives it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.distributed as dist
from exact_values import Values
from torch import Tensor

REDUCING = ("all_reduce", "reduce", "reduce_scatter")
SPREAD = ("all_gather", "reduce_scatter", "all_to_all")  # their size counts the elements of all ranks

# torch 2.13 renamed these two and warns about the old names
all_gather_single = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
reduce_scatter_single = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor


@dataclass(frozen=True)
class Collective:
    """A collective with its dtype and operator."""

    name: str
    """As nccl-tests calls it, such as `all_reduce`."""
    dtype: torch.dtype
    """Of the elements that are sent and received."""
    op: str | None
    """The reduction, such as `sum`; None where it does not reduce."""

    def count(self, size_bytes: int) -> int:
        """The count that nccl-tests prints for this size; at least 1 unless the size is 0."""
        unit = self.dtype.itemsize * (dist.get_world_size() if self.name in SPREAD else 1)
        return max(size_bytes // unit, min(size_bytes, 1))

    def size_bytes(self, count: int) -> int:
        """The size that nccl-tests prints for this count."""
        return count * self.dtype.itemsize * (dist.get_world_size() if self.name in SPREAD else 1)

    def elements(self, count: int) -> tuple[int, int]:
        """How many elements a rank sends and receives."""
        spread = count * dist.get_world_size()
        return {"all_gather": (count, spread), "reduce_scatter": (spread, count), "all_to_all": (spread, spread)}.get(
            self.name, (count, count)
        )

    def over(self, sent: Tensor, received: Tensor) -> Callable[[], None]:
        """The call, ready to be made; one that works in place reads and writes `received`."""
        rank, ranks = dist.get_rank(), dist.get_world_size()
        op = dist.ReduceOp.SUM
        if self.op is not None:
            op = getattr(dist.ReduceOp, {"prod": "PRODUCT"}.get(self.op, self.op.upper()))

        def send_recv() -> None:
            right, left = (rank + 1) % ranks, (rank - 1) % ranks
            both = [dist.P2POp(dist.isend, sent, right), dist.P2POp(dist.irecv, received, left)]
            for work in dist.batch_isend_irecv(both):
                work.wait()

        calls: dict[str, Callable[[], object]] = {
            "all_reduce": lambda: dist.all_reduce(received, op),
            "all_gather": lambda: all_gather_single(received, sent),
            "reduce_scatter": lambda: reduce_scatter_single(received, sent, op),
            "broadcast": lambda: dist.broadcast(received, 0),
            "reduce": lambda: dist.reduce(received, 0, op),
            "all_to_all": lambda: dist.all_to_all_single(received, sent),
            "send_recv": send_recv,
        }
        return calls[self.name]  # type: ignore[return-value]

    def expected(self, values: Values, count: int) -> Tensor | None:
        """What this rank must hold after the call, or None where it holds nothing that is defined."""
        rank, ranks = dist.get_rank(), dist.get_world_size()
        match self.name:
            case "all_reduce":
                return values.reduced(count)
            case "reduce":
                return values.reduced(count) if rank == 0 else None
            case "reduce_scatter":
                return values.reduced(count, start=rank * count)
            case "broadcast":
                return values.sent(0, count)
            case "all_gather":
                return torch.cat([values.sent(peer, count) for peer in range(ranks)])
            case "all_to_all":
                return torch.cat([values.sent(peer, count, start=rank * count) for peer in range(ranks)])
            case "send_recv":
                return values.sent((rank - 1) % ranks, count)
        raise ValueError(self.name)

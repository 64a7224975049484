"""How the ranks of a probe agree beside the collectives that it measures: small values over gloo, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


def control_group() -> dist.ProcessGroup:
    """A gloo group of all ranks: the default one where it is gloo already."""
    world = dist.group.WORLD
    if world is not None and dist.get_backend() == "gloo":
        return world
    group: dist.ProcessGroup = dist.new_group(backend="gloo")
    return group


def gathered(value: Any, control: dist.ProcessGroup) -> list[Any]:  # noqa: ANN401 - any plain value
    """Every rank's value, in order of rank."""
    everyones: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyones, value, group=control)
    return everyones


def agreed(value: float, control: dist.ProcessGroup) -> float:
    """Rank 0's value, so that every rank decides alike."""
    told = torch.tensor([value], dtype=torch.float64)
    dist.broadcast(told, 0, group=control)
    return float(told[0])

"""Compares the copies of tensors that lie on a device mesh: the ranks that hold the same part of one, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ddpdoctor.agent.inside.tensors.dtensor import holders, local_part, offset
from ddpdoctor.agent.inside.tensors.fingerprint import Method, digests
from ddpdoctor.agent.inside.tensors.named_tensors import SharedTensor
from ddpdoctor.analysis.replicas.comparison import parts_apart
from ddpdoctor.evidence.replicas import Role, Side, ValueDifference
from ddpdoctor.replicas.allgather import GroupExchange
from ddpdoctor.replicas.element_diff import element
from ddpdoctor.replicas.hash_tree import locate

WORDS = 3  # int64 numbers a tensor: who holds this part first, and its fingerprint


def compare_meshed(
    items: Sequence[SharedTensor], method: Method, wire: GroupExchange
) -> tuple[tuple[ValueDifference, ...], int]:
    """The tensors of which some ranks hold the same part with other bytes, and how many have no part that two ranks hold.

    One exchange where all copies agree. The first difference of each role is located to the element of the whole tensor.

    Raises:
        PeerFailedError: a rank could not read its parts; raised on every rank.
    """
    _, words = wire.agree(lambda: _words(items, method), torch.flatten, WORDS * len(items))
    table = words.view(len(wire.ranks), len(items), WORDS).tolist()
    found: list[ValueDifference] = []
    located: set[Role] = set()
    alone = 0
    for number, item in enumerate(items):
        parts: dict[int, dict[int, tuple[int, int]]] = {}
        for rank, rows in zip(wire.ranks, table, strict=True):
            first, *digest = rows[number]
            parts.setdefault(first, {})[rank] = (digest[0], digest[1])
        alone += max(map(len, parts.values())) == 1
        apart = parts_apart(parts)
        if not apart:
            continue
        if item.role in located:
            found.append(ValueDifference(role=item.role, name=item.name, sides=apart[0], other_parts=apart[1:]))
        else:
            located.add(item.role)
            first = _located(item, [side.ranks for side in apart[0]], wire)
            found.append(replace(first, other_parts=apart[1:]))
    return tuple(found), alone


def _words(items: Sequence[SharedTensor], method: Method) -> Tensor:
    first = torch.tensor([min(holders(item.tensor), default=-1) for item in items])
    return torch.cat([first[:, None], digests([local_part(item.tensor) for item in items], method)], dim=1)


def _located(item: SharedTensor, sides: Sequence[Sequence[int]], wire: GroupExchange) -> ValueDifference:
    """The element in which the copies of one part differ; all ranks take part, those with other parts by silence."""
    among = [wire.ranks.index(rank) for side in sides for rank in side]
    shape, stride, begins = wire.objects(_description(item.tensor))[among[0]]
    like = torch.empty_strided(shape, stride, dtype=item.tensor.dtype, device="meta")
    here = torch.distributed.get_rank() in {rank for side in sides for rank in side}
    where = locate(
        local_part(item.tensor) if here else None, wire, size=like.numel() * like.element_size(), among=among
    )
    counted = iter(range(len(among)))
    worst, kind, extent = element(like, where, [[next(counted) for _ in side] for side in sides])
    if worst is not None:
        worst = replace(worst, index=tuple(at + begin for at, begin in zip(worst.index, begins, strict=True)))
    texts = worst.values if worst is not None else ("",) * len(sides)
    return ValueDifference(
        role=item.role, name=item.name, element=worst, extent=extent, kind=kind,
        sides=tuple(Side(ranks=tuple(side), says=says) for side, says in zip(sides, texts, strict=True)),
    )  # fmt: skip


def _description(tensor: Any) -> tuple[list[int], list[int], list[int]]:  # noqa: ANN401 - a DTensor
    """Shape and strides of the part on this rank, and where it begins in the whole."""
    part = local_part(tensor)
    return list(part.shape), list(part.stride()), list(offset(tensor))

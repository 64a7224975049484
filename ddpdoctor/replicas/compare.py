"""`compare`: are the replicas equal, bit by bit; and if not, which tensor, which element, which ranks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from ddpdoctor.agent.inside.tensors.dtensor import is_meshed, local_part
from ddpdoctor.agent.inside.tensors.fingerprint import Method, best_method, combined, digests
from ddpdoctor.agent.inside.tensors.named_tensors import SharedTensor, inventory, structure_digest, unwrapped
from ddpdoctor.analysis.majority import vote
from ddpdoctor.analysis.replicas.comparison import order_difference, structure_differences
from ddpdoctor.evidence.replicas import ROLES, Replicas, Role, Side, StructureDifference, ValueDifference
from ddpdoctor.replicas.allgather import GroupExchange
from ddpdoctor.replicas.dtensor import compare_meshed
from ddpdoctor.replicas.element_diff import element
from ddpdoctor.replicas.hash_tree import locate
from ddpdoctor.replicas.tolerance import ToleranceCounter

METHODS: tuple[Method, ...] = ("linear", "xxh3")
WORD = 6  # int64 numbers a rank sends when all is well, beside its status: 56 bytes


@dataclass(frozen=True)
class _Prints:
    items: list[SharedTensor]
    held: list[Tensor]
    method: Method
    stepped: bool
    table: Tensor


def compare(
    model: nn.Module,
    optimizer: Optimizer | None = None,
    group: dist.ProcessGroup | None = None,
    tolerance: float = 0.0,
) -> tuple[Replicas, GroupExchange]:
    """The comparison over the ranks of `group`, the same on each of them; they must all call this.

    One exchange of 56 bytes a rank where the replicas agree, and one of 24 bytes a tensor where some lie on a mesh. Tensors
    that differ by no more than `tolerance` are counted; those on a mesh are compared bit by bit.

    Raises:
        PeerFailedError: a rank could not read its tensors; raised on every rank.
    """
    wire = GroupExchange(group)
    prints, words = wire.agree(lambda: _prints(model, optimizer, best_method()), _word, WORD)
    if len(set(words[:, 0].tolist())) > 1:  # xxhash is not installed on all of them
        prints, words = wire.agree(lambda: _prints(model, optimizer, "linear"), _word, WORD)
    stepped, words = bool(words[:, 1].any()), words[:, 2:]
    structure: tuple[StructureDifference, ...] = ()
    values: tuple[ValueDifference, ...] = ()
    within = ToleranceCounter(tolerance)
    if bool((words != words[0]).any()):
        tables = wire.objects(_listing(prints))
        structure = _structure(wire.ranks, tables)
        values = _values(prints, tables, wire, within)
    meshed = [item for item in prints.items if is_meshed(item.tensor) and not item.tied_to]
    on_mesh: tuple[ValueDifference, ...] = ()
    sharded = 0
    if meshed and not structure:
        on_mesh, sharded = compare_meshed(meshed, prints.method, wire)
        values += on_mesh
    return (
        Replicas(
            ranks=wire.ranks,
            tensors=len(prints.items) - sharded,
            bytes=sum(held.numel() * held.element_size() for held in prints.held),
            sharded=sharded,
            method=prints.method,
            stepped=stepped,
            structure=structure,
            values=values,
            on_a_mesh=bool(values) and values[0] in on_mesh and not stepped,
            tolerance=tolerance,
            within=within.count,
            largest=within.largest,
        ),
        wire,
    )


def _prints(model: nn.Module, optimizer: Optimizer | None, method: Method) -> _Prints:
    items = inventory(model, optimizer)
    held = [local_part(item.tensor) if is_meshed(item.tensor) else item.tensor for item in items if not item.tied_to]
    whole = [torch.empty(0) if is_meshed(item.tensor) else item.tensor for item in items]
    return _Prints(items, held, method, _stepped(model, optimizer), digests(whole, method))


def _word(prints: _Prints) -> Tensor:
    structure = structure_digest(prints.items)
    data = structure + combined(prints.table, structure)
    return torch.cat([torch.tensor([METHODS.index(prints.method), int(prints.stepped)]), _int64(data)])


def _int64(data: bytes) -> Tensor:
    return torch.frombuffer(bytearray(data), dtype=torch.int64)


def _listing(prints: _Prints) -> list[tuple[Role, str, dict[str, Any], str, tuple[int, int]]]:
    return [
        (item.role, item.name, item.structure, item.tied_to, (int(row[0]), int(row[1])))
        for item, row in zip(prints.items, prints.table, strict=True)
    ]


def _structure(ranks: Sequence[int], tables: Sequence[list[Any]]) -> tuple[StructureDifference, ...]:
    """What differs before any value: a tensor that some ranks lack, its order, dtype, shape, stride, requires_grad, ties."""
    found: list[StructureDifference] = []
    for role in ROLES:
        listed = {
            rank: {name: _aspects(structure, tied_to) for part, name, structure, tied_to, _ in table if part == role}
            for rank, table in zip(ranks, tables, strict=True)
        }
        found += structure_differences(role, listed)
        order = order_difference(role, {rank: list(mine) for rank, mine in listed.items()})
        found += [order] if order is not None else []
    return tuple(found)


def _aspects(structure: dict[str, Any], tied_to: str) -> dict[str, str]:
    ties = f"tied to {tied_to}" if tied_to else "not tied"
    return {**{aspect: str(value) for aspect, value in structure.items()}, "ties": ties}


def _values(
    prints: _Prints, tables: Sequence[list[Any]], wire: GroupExchange, within: ToleranceCounter
) -> tuple[ValueDifference, ...]:
    """The tensors of one structure everywhere whose bytes differ, the first of each role located to the element."""
    mine = {(item.role, item.name): item for item in prints.items}
    rows = [{(row[0], row[1]): row for row in table} for table in tables]
    located: set[Role] = set()
    found = []
    for key, first in rows[0].items():
        role, name = key
        others = [row.get(key) for row in rows]
        if first[3] or any(other is None or other[2] != first[2] or other[3] for other in others):
            continue
        sides = vote({rank: other[4] for rank, other in zip(wire.ranks, others, strict=True) if other}).sides
        if len(sides) == 1 or (within.tolerance and within.admits(mine[key].tensor, sides, wire)):
            continue
        if role in located:
            found.append(ValueDifference(role=role, name=name, sides=tuple(Side(ranks=side) for side in sides)))
        else:
            located.add(role)
            found.append(_located(mine[key], sides, wire))
    return tuple(found)


def _located(item: SharedTensor, sides: tuple[tuple[int, ...], ...], wire: GroupExchange) -> ValueDifference:
    where = locate(item.tensor, wire)
    positions = [[wire.ranks.index(rank) for rank in side] for side in sides]
    worst, kind, extent = element(item.tensor, where, positions)
    if kind != "value" and not where.complete:
        _, everyone = wire.agree(lambda: _meaning(item.tensor), lambda words: words, 2)
        if bool((everyone != everyone[0]).any()):
            kind = "value"
    texts = worst.values if worst is not None else ("",) * len(sides)
    return ValueDifference(
        role=item.role, name=item.name, element=worst, extent=extent, kind=kind,
        sides=tuple(Side(ranks=side, says=says) for side, says in zip(sides, texts, strict=True)),
    )  # fmt: skip


def _meaning(tensor: Tensor) -> Tensor:
    """The fingerprint of the tensor with every NaN and every zero made the same one."""
    plain = tensor.detach().to(torch.float32) if tensor.element_size() == 1 else tensor.detach()
    plain = torch.where(plain == 0, torch.zeros_like(plain), plain)
    return digests([torch.where(plain != plain, torch.full_like(plain, float("nan")), plain)])[0]


def _stepped(model: nn.Module, optimizer: Optimizer | None) -> bool:
    """Whether the model shows signs of having been trained: gradients, optimizer state, or a forward of its wrapper."""
    graded = any(parameter.grad is not None for parameter in unwrapped(model).parameters())
    return graded or bool(optimizer and optimizer.state) or bool(getattr(model, "_lazy_init_ran", False))

"""Where a program reads what is not the same in every process: the rank, a clock, a seed, a batch."""

from __future__ import annotations

import ast
from enum import Enum

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind
from ddpdoctor.source.chains.backwards import Backwards
from ddpdoctor.source.chains.points import Point
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted

_SEEDED = frozenset({"torch.initial_seed", "torch.seed"})
_DRAWS = ("torch.rand", "torch.randn", "torch.randint", "torch.randperm", "random.", "numpy.random.", "torch.normal")


class Read(Enum):
    """What is read."""

    RANK = "rank"
    PART = "part"
    """The rank's own part of a list or of the data, which it has on purpose."""
    LOCAL = "local"
    """A clock, or the process itself."""
    BATCH = "batch"
    """What a loader gives, or a loss: each rank has its own."""
    SEED = "seed"
    """The seed that the generator was given, or a number that it draws."""


def read_at(point: Point, back: Backwards) -> Read | None:
    """What an expression reads; None of most."""
    match point.node:
        case ast.Name(id=name) | ast.Attribute(attr=name) if "loss" in name.lower() and "fn" not in name.lower():
            return Read.BATCH
        case ast.Constant(value=str(name)) if rank_names.ENVIRONMENT.get(name) in RANK_KINDS:
            return Read.RANK
        case ast.Name(id=name):
            return Read.RANK if _is_spawned_with(name, point, back) else None
        case ast.Attribute(attr=name, value=owner) if name in rank_names.RANK_NAMES:
            named = dotted(owner).partition(".")[0] not in {"self", "cls", ""}
            return Read.RANK if named and back.held(owner, name, point) is None else None
        case ast.Call():
            return _called(point.node, point, back)
    return None


def _called(node: ast.Call, point: Point, back: Backwards) -> Read | None:
    name = back.full_name(node, point.scope)
    last = name.rpartition(".")[2]
    if name.endswith("DataLoader"):
        return Read.BATCH
    if not name or back.is_programs(node, point.scope):
        return None
    if (last in rank_names.RANK_CALLS and not node.args) or last == "get_coordinate":  # of a device mesh
        return Read.RANK
    known = rank_names.CALLED.get(name)
    if known is Kind.LOCAL:
        return Read.LOCAL
    if known in RANK_KINDS:
        return Read.RANK
    has_generator = any(one.arg == "generator" for one in node.keywords)
    if name in _SEEDED or (name.startswith(_DRAWS) and not has_generator and not last[:1].isupper()):
        return Read.SEED
    return None


def _is_spawned_with(name: str, point: Point, back: Backwards) -> bool:
    function = point.scope
    if name not in function.parameters or name in function.definitions:
        return False
    position = function.parameters.index(name)
    return any(site.spawned and position < site.first for site in back.sites(function))

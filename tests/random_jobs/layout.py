"""A mesh of ranks in any order of its dimensions, with process groups named in one of the ways that programs name them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from random import Random

NAMING = ("numbers with descriptions", "numbers", "hashes", "mesh")
WORLD = "world"


@dataclass(frozen=True, slots=True)
class Group:
    """One process group: `kind` names the dimensions that it spans."""

    kind: str
    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Mesh:
    """`dimensions` from the slowest to the fastest, as `(name, size)`, and the groups of each rank by kind."""

    dimensions: tuple[tuple[str, int], ...]
    groups: tuple[Group, ...]

    @property
    def world(self) -> int:
        """The number of ranks."""
        return prod(size for _, size in self.dimensions)

    def coordinate(self, rank: int, name: str) -> int:
        """The place of a rank along a dimension, 0 where the mesh has none of this name."""
        for dimension, size in reversed(self.dimensions):
            if dimension == name:
                return rank % size
            rank //= size
        return 0

    def size(self, name: str) -> int:
        """The length of a dimension, 1 where the mesh has none of this name."""
        return dict(self.dimensions).get(name, 1)

    def group(self, rank: int, kind: str) -> Group:
        """The group of this kind that a rank is in."""
        return next(group for group in self.groups if group.kind == kind and rank in group.ranks)

    def groups_of(self, rank: int) -> list[Group]:
        """All groups of a rank, in order of creation."""
        return [group for group in self.groups if rank in group.ranks]

    def along(self, rank: int, name: str, by: int) -> int:
        """The rank `by` places further along a dimension, round at its end."""
        members = self.group(rank, name).ranks
        return members[(members.index(rank) + by) % len(members)]


def mesh(dimensions: Sequence[tuple[str, int]], *, naming: str, random: Random) -> Mesh:
    """The mesh with the world group, a group per dimension, and some per pair of dimensions, made in random order."""
    dimensions = tuple(one for one in dimensions if one[1] > 1)
    names = [name for name, _ in dimensions]
    kinds = [(name,) for name in names] + [
        pair for number, one in enumerate(names) for pair in [(one, other) for other in names[number + 1 :]]
    ][: random.randrange(3)]
    random.shuffle(kinds)
    world = prod(size for _, size in dimensions)
    found = [Group(WORLD, *_named(0, WORLD, range(world), "numbers with descriptions"), tuple(range(world)))]
    bare = Mesh(dimensions, ())
    for kind in kinds:
        others = [name for name in names if name not in kind]
        for place in product(*(range(bare.size(name)) for name in others)):
            ranks = tuple(
                rank
                for rank in range(world)
                if all(bare.coordinate(rank, name) == at for name, at in zip(others, place, strict=True))
            )
            label = "_".join(kind)
            found.append(Group(label, *_named(len(found), label, ranks, naming), ranks))
    return Mesh(dimensions, tuple(found))


def _named(number: int, kind: str, ranks: Sequence[int], naming: str) -> tuple[str, str]:
    if kind == WORLD:
        return "0", "default_pg"
    match naming:
        case "numbers with descriptions":
            return str(number), f"{kind.upper()}_PARALLEL_GROUP"
        case "numbers":
            return str(number), "undefined"
        case "hashes":
            return hashlib.sha1(f"{kind}{[*ranks]}".encode(), usedforsecurity=False).hexdigest(), "undefined"
        case _:
            return str(number), f"mesh_{kind}"

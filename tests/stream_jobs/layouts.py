"""How ranks are placed in process groups: axes of a mesh in some order, and groups that are joined from several axes."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

NAMES = {  # what frameworks call the groups of an axis
    "tp": ("TENSOR_MODEL_PARALLEL_GROUP", "mesh_tp", "tp"),
    "pp": ("PIPELINE_MODEL_PARALLEL_GROUP", "mesh_pp", "pp"),
    "dp": ("DATA_PARALLEL_GROUP_WITH_CP", "mesh_dp_shard", "fsdp"),
    "rep": ("INTER_PARTIAL_DATA_PARALLEL_GROUP", "mesh_dp_replicate", "replicate"),
    "ep": ("EXPERT_MODEL_PARALLEL_GROUP", "mesh_ep", "ep"),
    "cp": ("CONTEXT_PARALLEL_GROUP", "mesh_cp", "cp"),
    "mp": ("MODEL_PARALLEL_GROUP", "mesh_mp", "grad_norm"),
    "emb": ("EMBEDDING_GROUP", "mesh_emb", "embeddings"),
}
WORLD = "default_pg"


@dataclass(frozen=True, slots=True)
class Group:
    """A process group: its name among all ranks, what it is for, its description, and its members in order."""

    name: str
    axis: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """The sizes of the axes, innermost first, and the groups of every rank by axis, in the order of their creation."""

    axes: dict[str, int]
    of_rank: tuple[dict[str, Group], ...]

    @property
    def ranks(self) -> int:
        """How many there are."""
        return len(self.of_rank)

    def place(self, rank: int, axis: str) -> int:
        """The rank's place in its group of this axis, 0 where there is none."""
        group = self.of_rank[rank].get(axis)
        return group.ranks.index(rank) if group is not None else 0

    def size(self, axis: str) -> int:
        """How long the axis is, 1 where there is none."""
        return self.axes.get(axis, 1)


SHAPES: tuple[dict[str, Sequence[int]], ...] = (
    {"tp": (2, 4), "pp": (2, 4), "dp": (2, 4)},
    {"tp": (2,), "pp": (2, 4), "ep": (2, 4), "dp": (1, 2)},
    {"tp": (2, 4, 8), "dp": (2, 4, 8)},
    {"pp": (2, 4, 8), "dp": (2, 4)},
    {"dp": (4, 8), "rep": (2, 4)},
    {"dp": (8, 16, 32)},
    {"ep": (4, 8), "dp": (2, 4)},
    {"cp": (2, 4), "tp": (2,), "dp": (2, 4)},
    {"tp": (2,), "cp": (2,), "pp": (2,), "dp": (2, 4)},
)
LEAST, MOST = 8, 64


def layout(random: Random) -> Layout:
    """A mesh of 8 to 64 ranks, with axes in any order and names of any framework."""
    while True:
        shape = random.choice(SHAPES)
        axes = {axis: random.choice(sizes) for axis, sizes in shape.items()}
        if LEAST <= math.prod(axes.values()) <= MOST:
            break
    names = [*axes]
    random.shuffle(names)
    return placed(random, {axis: axes[axis] for axis in names})


def placed(random: Random, axes: dict[str, int]) -> Layout:
    """The groups of such a mesh; `mp` joins the tensor and pipeline ranks, `emb` the ends of a pipeline."""
    world = math.prod(axes.values())
    strides = dict(zip(axes, itertools.accumulate([1, *axes.values()][:-1], lambda a, b: a * b), strict=True))
    members: dict[str, list[tuple[int, ...]]] = {"world": [tuple(range(world))]}
    for axis, size in axes.items():
        if size > 1:
            members[axis] = _lines(world, {axis: (strides[axis], size)})
    both = {axis: (strides[axis], axes[axis]) for axis in ("tp", "pp") if axes.get(axis, 1) > 1}
    if len(both) == 2:
        members["mp"] = _lines(world, both)
    if axes.get("pp", 1) > 1 and random.random() < 0.5:
        members["emb"] = [(line[0], line[-1]) for line in members["pp"]]
    style, named = random.randrange(3), random.choice(("counted", "counted", "hashed"))
    plain = random.random() < 0.15  # a program that describes none of its groups
    order = ["world", *random.sample([*members][1:], len(members) - 1)]
    found: list[dict[str, Group]] = [{} for _ in range(world)]
    number = itertools.count()
    for axis in order:
        for ranks in members[axis]:
            told = WORLD if axis == "world" else "undefined" if plain else NAMES[axis][style]
            digest = hashlib.sha1(f"{axis}{ranks}".encode(), usedforsecurity=False).hexdigest()
            count = next(number)
            name = str(count) if named == "counted" or axis == "world" else digest
            group = Group(name, axis, told, ranks)
            for rank in ranks:
                found[rank][axis] = group
    return Layout(axes=axes, of_rank=tuple(found))


def _lines(world: int, axes: dict[str, tuple[int, int]]) -> list[tuple[int, ...]]:
    """The sets of ranks that differ in these axes (stride and size of each) alone."""
    offsets = sorted(
        sum(step * stride for step, (stride, _) in zip(steps, axes.values(), strict=True))
        for steps in itertools.product(*(range(size) for _, size in axes.values()))
    )
    starts = [rank for rank in range(world) if all((rank // stride) % size == 0 for stride, size in axes.values())]
    return [tuple(start + offset for offset in offsets) for start in starts]

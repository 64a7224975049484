"""Which ranks form which process groups, numbered as Megatron numbers them: tensor first, then data, then pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import product

DEFAULT = "default_pg"
DATA = "DATA_PARALLEL_GROUP"
MODEL = "MODEL_PARALLEL_GROUP"
TENSOR = "TENSOR_MODEL_PARALLEL_GROUP"
PIPELINE = "PIPELINE_MODEL_PARALLEL_GROUP"
EXPERT = "EXPERT_MODEL_PARALLEL_GROUP"


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """One process group, with the global ranks of its members."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Topology:
    """`tensor` x `pipeline` x `data` ranks. With `experts`, the tensor and data ranks of a stage form an expert group."""

    tensor: int = 2
    pipeline: int = 4
    data: int = 2
    experts: bool = False

    @property
    def world(self) -> int:
        """The number of ranks."""
        return self.tensor * self.pipeline * self.data

    def rank(self, tensor: int, data: int, stage: int) -> int:
        """The global rank at these coordinates."""
        return tensor + self.tensor * (data + self.data * stage)

    def coordinates(self, rank: int) -> tuple[int, int, int]:
        """The place of a rank among its tensor, data and pipeline peers."""
        return (
            rank % self.tensor,
            rank // self.tensor % self.data,
            rank // (self.tensor * self.data),
        )

    @cached_property
    def groups(self) -> tuple[ProcessGroup, ...]:
        """Every group of the job, in the order in which they are made."""
        found: dict[tuple[str, tuple[int, ...]], None] = {(DEFAULT, tuple(range(self.world))): None}
        sets: list[tuple[str, Callable[[int, int, int], object]]] = [
            (DATA, lambda tensor, data, stage: (tensor, stage)),
            (MODEL, lambda tensor, data, stage: data),
            (TENSOR, lambda tensor, data, stage: (data, stage)),
            (PIPELINE, lambda tensor, data, stage: (tensor, data)),
        ]
        if self.experts:
            sets.append((EXPERT, lambda tensor, data, stage: stage))
        for description, key in sets:
            members: dict[object, list[int]] = {}
            for stage, data, tensor in product(range(self.pipeline), range(self.data), range(self.tensor)):
                members.setdefault(key(tensor, data, stage), []).append(self.rank(tensor, data, stage))
            found.update(dict.fromkeys((description, tuple(sorted(ranks))) for ranks in members.values()))
        return tuple(
            ProcessGroup(name=str(number), description=description, ranks=ranks)
            for number, (description, ranks) in enumerate(found)
        )

    def group(self, rank: int, description: str) -> ProcessGroup:
        """The group of this description that a rank is in."""
        return next(group for group in self.groups_of(rank) if group.description == description)

    def groups_of(self, rank: int) -> tuple[ProcessGroup, ...]:
        """All groups that a rank is in."""
        return self._by_rank[rank]

    @cached_property
    def _by_rank(self) -> tuple[tuple[ProcessGroup, ...], ...]:
        return tuple(tuple(group for group in self.groups if rank in group.ranks) for rank in range(self.world))

"""What a comparison of the replicas' tensors found: differences of structure first, then of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, get_args

from ddpdoctor.evidence.bounds import need
from ddpdoctor.evidence.frames import Frame

Role = Literal["parameter", "buffer", "optimizer state"]
ROLES: tuple[Role, ...] = get_args(Role)
Kind = Literal["value", "sign of zero", "NaN payload"]
Aspect = Literal["presence", "order", "dtype", "shape", "stride", "requires_grad", "ties"]

SAMPLED = "as far as elements were looked at"  # an extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The ranks that agree with each other."""

    ranks: tuple[int, ...]
    """In ascending order."""
    says: str = ""
    """What they have, as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element that differs."""

    index: tuple[int, ...]
    """Its index in the tensor."""
    values: tuple[str, ...]
    """Its value on each side, in the order of the sides."""
    difference: float | None = None
    """The largest difference between two sides; None where the values are not finite numbers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureDifference:
    """A tensor that is not of the same kind on all ranks."""

    role: Role
    """Whether it is a parameter, a buffer, or state of the optimizer."""
    name: str
    """Its name in the user's model."""
    aspect: Aspect
    """In what it differs, such as its shape or dtype."""
    sides: tuple[Side, ...]
    """The ranks by what they have, the largest group first."""

    def __post_init__(self) -> None:
        need(len(self.sides) > 1, f"{self.name} differs between less than two sides")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """A tensor whose bytes differ."""

    role: Role
    """Whether it is a parameter, a buffer, or state of the optimizer."""
    name: str
    """Its name in the user's model."""
    sides: tuple[Side, ...]
    """The ranks by what they have, the largest group first."""
    element: Element | None = None
    """The element with the largest difference, where one was located."""
    extent: str = ""
    """How much of the tensor differs, as text."""
    kind: Kind = "value"
    """Whether arithmetic can tell the difference."""
    other_parts: tuple[tuple[Side, ...], ...] = ()
    """The sides of each further part that differs, where ranks hold parts of the tensor; `sides` are those of the first."""
    changed_on: tuple[int, ...] = ()
    """The ranks on which a tensor has changed that was equal everywhere before, and has kept its bytes on the others."""

    def __post_init__(self) -> None:
        need(len(self.sides) > 1, f"{self.name} differs between less than two sides")


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """One comparison of the tensors of all ranks."""

    ranks: tuple[int, ...]
    """The ranks that were compared."""
    tensors: int
    """How many tensors were compared."""
    bytes: int
    """The size of the tensors of one rank."""
    method: str
    """The hash function of the fingerprints."""
    stepped: bool
    """Whether the model shows signs of training: gradients, optimizer state or a forward."""
    in_forward: bool = False
    """Whether the comparison was made inside the model's forward; outside of it buffers may differ."""
    sharded: int = 0
    """How many tensors have no replica."""
    step: int | None = None
    """The optimizer step at which the ranks were compared, counted from 0; None where nobody counted."""
    steps: int | None = None
    """How many optimizer steps there were; None where nobody counted."""
    structure: tuple[StructureDifference, ...] = ()
    """Tensors of another kind on some ranks."""
    values: tuple[ValueDifference, ...] = ()
    """Tensors whose bytes differ."""
    lines: Mapping[int, Frame] = field(default_factory=dict)
    """The user's line by rank: the one that wraps the model where the ranks diverged before any step, else the one that
    steps or calls the forward."""
    written: Mapping[Role, Mapping[int, Frame]] = field(default_factory=dict)
    """The user's lines that changed the first buffer of `values`, or the optimizer's state."""
    on_a_mesh: bool = False
    """Whether ranks held parts of tensors on a device mesh (FSDP), which no wrapper makes equal, and differed before the first
    step; `lines` are then those that build the optimizer."""
    loads: Mapping[int, Frame] = field(default_factory=dict)
    """The user's lines that loaded the optimizer's state since its last step."""
    shadowed: Mapping[int, int] = field(default_factory=dict)
    """For each rank without data inside `Join`, how many steps its peers made without it."""
    steppers: tuple[int, ...] = ()
    """The only ranks whose optimizer steps the first parameter of `values`, where ranks share the parameters out."""
    may_be_put_in_place: bool = False
    """Whether rank 0 may have put these weights in place after the last step, for its evaluation or checkpoint."""
    replayed: bool = False
    """Whether the run was a replay, which looks for lines that write."""
    own_buffers: bool = False
    """Whether `values` are buffers that the wrapper leaves to each rank, and that each rank updates on its own."""
    averaged: bool = False
    """Whether the job averages its weights itself and has just done so; `lines` are then where."""
    tolerance: float = 0.0
    """The difference that is allowed; 0 compares bits."""
    within: int = 0
    """How many tensors differ by no more than `tolerance`; they are not in `values`."""
    largest: float = 0.0
    """The largest difference among these."""


KINDS = {Replicas: "comparison of replicas"}

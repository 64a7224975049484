"""What a comparison of the replicas' tensors found: differences of structure first, then of values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ddpdoctor.evidence.track import Line

Role = Literal["parameter", "buffer", "optimizer state"]
Kind = Literal["value", "sign of zero", "NaN payload"]
Aspect = Literal["presence", "order", "dtype", "shape", "stride", "requires_grad", "ties"]

SAMPLED = "as far as elements were looked at"  # an extent


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The ranks that agree with each other, and what they have, as one would write it."""

    ranks: tuple[int, ...]
    says: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Element:
    """One element that differs: its index, its value on each side (in the order of the sides), and the largest gap.

    `difference` is None where the values are not finite numbers.
    """

    index: tuple[int, ...]
    values: tuple[str, ...]
    difference: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StructureDifference:
    """A tensor that is not the same kind of thing on all ranks."""

    role: Role
    name: str
    aspect: Aspect
    sides: tuple[Side, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueDifference:
    """A tensor whose bytes differ. `extent` says how much of it, `kind` whether arithmetic could tell the difference."""

    role: Role
    name: str
    sides: tuple[Side, ...]
    element: Element | None = None
    extent: str = ""
    kind: Kind = "value"


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """One comparison of all ranks. `stepped` is whether the model had been trained already, as far as one can see.

    `tensors` and `bytes` count what was compared, `sharded` what has no replica. `in_forward` tells a comparison inside
    the model's forward from one outside, where buffers are free to differ. `step` is the optimizer step at which they
    were compared, counted from 0, and `steps` how many there were; None where nobody counted. `lines` are the user's: of the
    wrap where the replicas part before any step, else of the step or of the forward; `state_lines` those that changed the
    optimizer's state, `loads` those that loaded it since its last step. `shadowed` are the steps so far that a rank without
    data of its own did not make, and its peers did, inside `Join`. `within` counts tensors that differ by no more than
    `tolerance` and are not in `values`; `largest` is the largest such difference.
    """

    ranks: tuple[int, ...]
    tensors: int
    bytes: int
    method: str
    stepped: bool
    in_forward: bool = False
    sharded: int = 0
    step: int | None = None
    steps: int | None = None
    structure: tuple[StructureDifference, ...] = ()
    values: tuple[ValueDifference, ...] = ()
    lines: Mapping[int, Line] = field(default_factory=dict)
    state_lines: Mapping[int, Line] = field(default_factory=dict)
    loads: Mapping[int, Line] = field(default_factory=dict)
    shadowed: Mapping[int, int] = field(default_factory=dict)
    tolerance: float = 0.0
    within: int = 0
    largest: float = 0.0


KINDS = (Replicas,)

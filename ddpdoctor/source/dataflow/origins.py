"""Answers about expressions and calls: alternatives, the place that they are for, and the chain to where a value comes from."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Link, Origin
from ddpdoctor.evidence.many_objects import in_large_numbers
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Block, Scope
from ddpdoctor.whole_numbers import whole_number

Origins = tuple[Origin, ...]
MOST_ORIGINS = 12
MOST_SEEN = 40  # alternatives among which those twelve are chosen
MOST_ALIKE = 6  # of one sort: the batches of ten callers must not leave out the forward that a loss comes from
MOST_STEPS = 5
QUIET = frozenset({Kind.CONSTANT, Kind.UNKNOWN, Kind.FUNCTION})
TAINTS = RANK_KINDS | {Kind.LOCAL, Kind.WORLD_SIZE, Kind.DEVICE_COUNT, Kind.SHARED, Kind.UNORDERED, Kind.CPU_TENSOR}


@in_large_numbers
@dataclass(frozen=True, slots=True)
class At:
    """Where an expression is asked for."""

    scope: Scope
    """The function, class body or module that the expression stands in."""
    order: int
    """The number that the walk had reached: earlier assignments count; `reaching.END` for after everything."""
    block: Block
    """The block that the expression stands in."""


@in_large_numbers
@dataclass(frozen=True, slots=True)
class Meaning:
    """What a call calls."""

    name: str
    """The full name as far as imports tell it, `.method` for the method of an unknown object."""
    target: Scope | None = None
    """The function or class of the program; None where it is none."""
    does: str = ""
    """What the call is for, as `evidence.training_code.Call.does`; empty where no rule asks for it."""


FLIPPED = {"first": "others", "others": "first"}
"""Which ranks a test does not pass, by those that it does."""
_OBJECTS = frozenset({Kind.OBJECT, Kind.SAMPLER, Kind.LOADER, Kind.DATASET})
_LEAST_TELLING = frozenset({"item", "draw"})
"""Notes of what an unknown loop gives and of draws, of which a program's options can hold any number."""


def joined(origins: Iterable[Origin]) -> Origins:
    """The alternatives; duplicates are dropped, and the first one is kept.

    Where there are too many, those that say least are left out.
    """
    if (type(origins) is tuple or type(origins) is list) and len(origins) < 2:
        return tuple(origins)
    found: dict[tuple[Kind, str, str, str], Origin] = {}
    for origin in origins:
        key = (origin.kind, origin.text, origin.made, origin.note)
        if key not in found:
            found[key] = origin
            if len(found) >= MOST_SEEN:
                break
    if len(found) <= MOST_ORIGINS:
        return tuple(found.values())
    alike: dict[tuple[Kind, str], int] = {}
    last: dict[tuple[Kind, str, str, str], tuple[bool, bool]] = {}
    for key, origin in found.items():
        sort = (origin.kind, origin.note)
        alike[sort] = alike.get(sort, 0) + 1
        last[key] = (origin.note in _LEAST_TELLING, alike[sort] > MOST_ALIKE)
    kept = {*sorted(found, key=last.__getitem__)[:MOST_ORIGINS]}
    return tuple(origin for key, origin in found.items() if key in kept)


@lru_cache(names.MOST_NAMES, typed=True)
def constant(value: object) -> Origins:
    """What a literal can be: itself."""
    return (Origin(kind=Kind.CONSTANT, text=repr(value)),)


def or_unknown(found: Iterable[Origin], given: Iterable[ast.expr | None]) -> Iterator[Origin]:
    """That a sampler, loader, data set or None may be another object: of one of its assignments, `given`, nothing is known."""
    if any(one.kind in _OBJECTS or one.text == "None" for one in found):
        for node in given:
            if isinstance(node, ast.Call | ast.Name | ast.Attribute | ast.Subscript):
                yield Origin(kind=Kind.UNKNOWN, text=dotted(node) or dotted(getattr(node, "func", node)))


def with_link(origins: Iterable[Origin], link: Link) -> Origins:
    """The alternatives with one more step in their chains."""
    return tuple([one if one.kind in QUIET or len(one.why) > MOST_STEPS else one.by(link) for one in origins])


def without_context(made: str) -> str:
    """`file:line:column` of what a call made, whichever call its function is looked at by."""
    place, _, number = made.rpartition("@")
    return made if whole_number(number) is None else place  # else the sign is a part of the path


def note_of(name: str) -> str:
    """`first` for names that say that this is the one rank, such as `is_main_process`."""
    return "first" if name.startswith(("is_", "main_", "master_", "rank_zero")) else "by name"


def environment(name: str) -> Origins:
    """What an environment variable of a launcher holds."""
    kind = rank_names.ENVIRONMENT.get(name)
    return (Origin(kind=kind, text=name),) if kind is not None else ()

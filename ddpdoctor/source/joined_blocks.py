"""Which code blocks of a page are parts of one program: later ones call what earlier ones define."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True, slots=True)
class _Names:
    """The names of one block."""

    defined: tuple[str, ...]
    """Its functions and classes."""
    imported: AbstractSet[str]
    """What it imports, where it does nothing else."""
    asked: AbstractSet[str]
    """What it reads and does not bind."""


def joined(trees: Sequence[ast.Module]) -> Iterator[list[int]]:
    """The numbers of the blocks of each program, in their order. Blocks that define a name twice are programs of their own."""
    names = [_names(tree) for tree in trees]
    group = list(range(len(trees)))
    definers = {name: number for number, one in enumerate(names) for name in one.defined}
    for number, one in enumerate(names):
        for name in one.asked & definers.keys():
            mine, theirs = group[number], group[definers[name]]
            group = [mine if each == theirs else each for each in group] if mine != theirs else group
    parts: dict[int, list[int]] = {}
    for number, each in enumerate(group):
        parts.setdefault(each, []).append(number)
    for numbers in parts.values():
        counts = Counter(name for number in numbers for name in names[number].defined)
        if len(numbers) < 2 or counts.most_common(1)[0][1] > 1:
            yield from ([number] for number in numbers)
            continue
        asked = {name for number in numbers for name in names[number].asked}
        imports = [number for number, one in enumerate(names) if one.imported & asked and number < numbers[0]]
        yield [*imports, *numbers]


def _names(tree: ast.Module) -> _Names:
    read, bound = set[str](), set[str]()
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name) | ast.arg(arg=name):
                bound.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.alias(name=full, asname=short):
                bound.add(short or full.partition(".")[0])
    alone = all(isinstance(one, ast.Import | ast.ImportFrom) for one in tree.body)
    defined = tuple(one.name for one in tree.body if isinstance(one, _DEFINITIONS))
    return _Names(defined, frozenset(bound if alone else ()), frozenset(read - bound))

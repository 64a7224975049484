"""Where a call, a loop or an exit is: its place, the loops around it, and the tests and `with` blocks."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.evidence.training_code import Place
from ddpdoctor.source.guards import Guards, line_of
from ddpdoctor.source.scopes import Block, Scope
from ddpdoctor.source.values import Values
from ddpdoctor.source.with_blocks import WithBlocks


@dataclass(eq=False)
class Surroundings:
    """What surrounds the places of the functions of one run."""

    values: Values
    """Tells what tests and `with` blocks can be."""

    def __post_init__(self) -> None:
        """Nothing is known of any test or block yet."""
        self.guards = Guards(self.values)
        self.with_blocks = WithBlocks(self.values)
        self._loops: dict[int, tuple[int, ...]] = {}

    def suffix(self, scope: Scope) -> str:
        """What the id of a function has behind it, where it is looked at call by call."""
        context = self.values.context_in(scope)
        return context.suffix if context is not None else ""

    def place(self, scope: Scope, node: ast.AST) -> Place:
        """Where a node of a function is."""
        file, line = line_of(self.values, scope, getattr(node, "lineno", 1))
        return Place(file=file, line=line, column=getattr(node, "col_offset", 0) + 1, function=scope.name)

    def loops_around(self, block: Block, known: Mapping[int, int]) -> tuple[int, ...]:
        """The orders of the loops around a block; most calls are in a block that others are in, too."""
        if id(block) not in self._loops:
            self._loops[id(block)] = tuple(known[id(at)] for at in block.chain() if id(at) in known)
        return self._loops[id(block)]

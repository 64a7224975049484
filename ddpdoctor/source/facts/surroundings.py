"""Where a call, a loop or an exit is: its place, the loops around it, and the tests and `with` blocks."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass

from ddpdoctor.evidence.many_objects import in_large_numbers
from ddpdoctor.evidence.training_code import Context, Guard, Place
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.facts.guards import Guards
from ddpdoctor.source.facts.with_blocks import WithBlocks
from ddpdoctor.source.syntax.scopes import Block, Scope


@in_large_numbers
@dataclass(frozen=True, slots=True)
class EnclosingBlocks:
    """What stands around a place, outermost first."""

    guards: tuple[Guard, ...]
    """The tests that decide whether the place is reached."""
    loops: tuple[int, ...]
    """The orders of the loops."""
    contexts: tuple[Context, ...]
    """The `with` blocks."""


@dataclass(eq=False)
class Surroundings:
    """What surrounds the places of the functions of one run."""

    values: Values
    """Tells what tests and `with` blocks can be."""

    def __post_init__(self) -> None:
        """Nothing is known of any test or block yet."""
        self.guards = Guards(self.values)
        self.with_blocks = WithBlocks(self.values)
        self._orders: dict[int, dict[int, int]] = {}
        """By function, the orders of its loops by their bodies."""
        self._loops: dict[int, tuple[int, ...]] = {}
        self._around: dict[Hashable, EnclosingBlocks] = {}
        """By block and calling context, where no branch around the block leaves: there all places have the same around them."""

    def suffix(self, scope: Scope) -> str:
        """What the id of a function has behind it, where it is looked at call by call."""
        context = self.values.context_in(scope)
        return context.suffix if context is not None else ""

    def place(self, scope: Scope, node: ast.AST) -> Place:
        """Where a node of a function is."""
        try:
            line, column = node.lineno, node.col_offset  # type: ignore[attr-defined]
        except AttributeError:  # a module
            line, column = 1, 0
        file, line = self.values.project.sources[scope.file].place(line)
        return Place(file=file, line=line, column=column + 1, function=scope.name)

    def around(self, block: Block, order: int, scope: Scope) -> EnclosingBlocks:
        """What stands around a place of a function."""
        context = None if self.values.context is None else self.values.context_in(scope)
        key = block if context is None else (block, context)
        if key in self._around:
            return self._around[key]
        guards, contexts = self.guards.around(block, order, scope), self.with_blocks.around(block, scope)
        found = EnclosingBlocks(guards, self.loops_around(block, scope), contexts)
        if not any(at.ended for at in block.chain()):
            self._around[key] = found
        return found

    def loops_around(self, block: Block, scope: Scope) -> tuple[int, ...]:
        """The orders of the loops around a block; most calls are in a block that others are in, too."""
        if id(block) not in self._loops:
            if id(scope) not in self._orders:
                self._orders[id(scope)] = {id(loop.body): loop.order for loop in scope.loops}
            orders = self._orders[id(scope)]
            self._loops[id(block)] = tuple(orders[id(at)] for at in block.chain() if id(at) in orders)
        return self._loops[id(block)]

"""An expression at its place in a program, and what it comes from."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from dataclasses import dataclass

from ddpdoctor.source.program.index import Site
from ddpdoctor.source.syntax.scopes import Block, Scope

MOST_CALLS = 4  # of functions within each other, which are kept apart by their callers


@dataclass(frozen=True, slots=True, eq=False)
class Point:
    """An expression where it is evaluated."""

    node: ast.expr
    """The expression."""
    scope: Scope
    """The function, class body or module that it stands in."""
    order: int
    """The number of its statement in the scope: what comes later does not count."""
    block: Block
    """The block of that statement."""
    entered: tuple[tuple[Scope, Site], ...] = ()
    """The functions that were entered on the way to it, each with the call, the innermost last; empty for any call."""

    @property
    def key(self) -> Hashable:
        """The same for the same expression, entered by the same calls."""
        return id(self.node), tuple(id(site.call) for _, site in self.entered)

    def at(self, node: ast.expr) -> Point:
        """Another expression of the same statement."""
        return Point(node, self.scope, self.order, self.block, self.entered)

    def of(self, node: ast.expr, order: int, block: Block) -> Point:
        """An expression of another statement of the same function."""
        return Point(node, self.scope, order, block, self.entered)

    def inside(self, function: Scope, site: Site | None) -> tuple[tuple[Scope, Site], ...]:
        """What was entered once `function` is, by this call."""
        if site is None or len(self.entered) >= MOST_CALLS:
            return ()
        return (*self.entered, (function, site))


@dataclass(frozen=True, slots=True)
class Edge:
    """One step back: what an expression comes from."""

    to: Point
    """What it comes from."""
    is_test: bool = False
    """Whether that is a test that decides which value the expression has."""
    decides: int = 0
    """Of a test around a statement, the line of the statement; 0 of one that leaves before it, and of other tests."""
    is_same: bool = False
    """Whether the expression is that value, or holds it as it is: a name, an argument, an element of a list."""

"""The tests that decide whether a place of a program is reached."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ddpdoctor.source.chains.calls import MOST_CALLERS, Calls
from ddpdoctor.source.chains.points import Edge, Point
from ddpdoctor.source.syntax.scopes import Block, Scope

MOST_LEVELS = 4  # of functions that call each other


class Conditions(Calls):
    """Those in the function of the place, and those around what has the function run."""

    def deciding(
        self, block: Block, order: int, at: Point, *, beside: Block | None = None, line: int = 0
    ) -> Iterator[Edge]:
        """The tests that decide whether a place is reached, without those around `beside`, too."""
        for each in block.chain():
            if beside is not None and beside.inside(each):
                pass
            elif each.test is not None and each.form != "except" and not _asks_for_main(each.test):
                yield Edge(at.of(each.test, each.order, each.parent or each), is_test=True, decides=line)
            for left_at, ended in each.ended:
                after = left_at < order and not block.inside(ended) and not ended.fails
                turns = ended.ends in {"continue", "break"}
                passed = beside is None or turns or not beside.inside(each)
                if after and passed and ended.test is not None and ended.form in {"if", "else", "case"}:
                    yield Edge(at.of(ended.test, ended.order, each), is_test=True)

    def around(self, scope: Scope, order: int, block: Block, at: Point) -> Iterator[Edge]:
        """The tests that decide whether a place is reached, in its function and in those that call it."""
        yield from self.deciding(block, order, at)
        yield from self._of_callers(scope)

    def _of_callers(self, function: Scope) -> Sequence[Edge]:
        """The tests around what has a function run: its calls, what it is handed to, and where objects with it are made."""
        if id(function) not in self._known_tests:
            self._known_tests[id(function)] = [*self._above(function)]
        return self._known_tests[id(function)]

    def _above(self, function: Scope) -> Iterator[Edge]:
        seen, around = {id(function)}, [function]
        for _ in range(MOST_LEVELS):
            further = []
            for inner in around:
                cls = inner.parent
                made = self.index.constructions.get(id(cls), ()) if cls is not None and cls.is_class else ()
                sites = [(site.caller, site.call) for site in self.sites(inner)] + [*made, *self.handed(inner)]
                for caller, call in sites[:MOST_CALLERS]:
                    place = Point(call.node, caller, call.order, call.block)
                    yield from self.deciding(call.block, call.order, place)
                    if id(caller) not in seen:
                        seen.add(id(caller))
                        further.append(caller)
            around = further


def _asks_for_main(test: ast.expr) -> bool:
    return any(isinstance(one, ast.Name) and one.id == "__name__" for one in ast.walk(test))

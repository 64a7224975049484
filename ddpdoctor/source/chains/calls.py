"""Which function of the program a call runs, and which calls run a function."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from ddpdoctor.source.chains.points import Edge, Point
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import Index, Site
from ddpdoctor.source.program.methods import takes_its_object
from ddpdoctor.source.syntax.scopes import RawCall, Scope

MOST_CALLERS = 12


@dataclass(eq=False)
class Calls:
    """The calls of a program, as far as names lead from one to the other."""

    index: Index
    """Who calls a function with what, and who sets an attribute."""
    parts: dict[Hashable, bool] = field(default_factory=dict)
    """Of slices, by the key of their point, whether the process decides which part they take."""
    ends: float = float("inf")
    """The processor time at which every search ends."""
    _known_steps: dict[Hashable, tuple[Point, Sequence[Edge]]] = field(default_factory=dict)
    """By the key of a point the point, whose node must live as long, and what was found."""
    _known_attributes: dict[Hashable, tuple[Point, list[Edge] | None]] = field(default_factory=dict)
    _known_tests: dict[int, list[Edge]] = field(default_factory=dict)
    """By function, the tests around what has it run."""
    _known_touching: dict[int, dict[str, list[RawCall]]] = field(default_factory=dict)
    _raw_calls: dict[int, dict[int, RawCall]] = field(default_factory=dict)
    _handed: dict[str, list[tuple[Scope, RawCall]]] = field(default_factory=dict)

    def sites(self, function: Scope) -> list[Site]:
        """The calls of a function, also those of a method whose name no other class has."""
        found = [*self.index.sites.get(id(function), ())]
        cls = function.parent
        if cls is not None and cls.is_class and len(self.index.owners.get(function.name, ())) == 1:
            found += [self.site(caller, call, function) for caller, call in self.index.methods.get(function.name, ())]
        if function.name == "__call__" and cls is not None:
            for name in self.index.objects.get(id(cls), ()):
                found += [self.site(caller, call, function) for caller, call in self.index.named.get(name, ())]
        return found

    @staticmethod
    def site(caller: Scope, call: RawCall, function: Scope) -> Site:
        """A call as one of `function`."""
        keywords = tuple((one.arg, one.value) for one in call.node.keywords if one.arg is not None)
        return Site(caller, call, tuple(call.node.args), keywords, int(takes_its_object(function)))

    def handed(self, function: Scope) -> Iterator[tuple[Scope, RawCall]]:
        """The calls that are given a function, which may run it: `model.apply(init)`, `register_hook(scale)`."""
        if not self._handed:
            for source in self.index.project.sources.values():
                for scope in source.scopes:
                    for call in scope.calls:
                        for one in (*call.node.args, *(keyword.value for keyword in call.node.keywords)):
                            if name := dotted(one).rpartition(".")[2]:
                                self._handed.setdefault(name, []).append((scope, call))
        yield from self._handed.get(function.name, ())[:MOST_CALLERS]

    def function(self, node: ast.Call, at: Point) -> tuple[Scope, Site | None] | None:
        """The function or class of the program that is called, and the call as a way into it."""
        call = self._raw(node, at.scope)
        if call is None:
            return None
        if call.meant and isinstance(call.meant, Scope):
            return call.meant, self.site(at.scope, call, call.meant)
        if call.name == "cls" and at.scope.of_class is not None:
            return at.scope.of_class, None
        if call.target is not None:
            return call.target, self.site(at.scope, call, call.target)
        owners = self.index.owners.get(call.method, ()) if isinstance(node.func, ast.Attribute) else ()
        if len(owners) == 1:
            method = owners[0].functions[call.method]
            return method, self.site(at.scope, call, method)
        return None

    def full_name(self, node: ast.Call, scope: Scope) -> str:
        """The full name of what is called, as far as imports give one; empty of what is no name."""
        call = self._raw(node, scope)
        if call is None:
            return dotted(node.func)
        return call.meant if isinstance(call.meant, str) and call.meant else call.name

    def is_programs(self, node: ast.Call, scope: Scope) -> bool:
        """Whether a function or class of the program is called."""
        call = self._raw(node, scope)
        return call is not None and (call.target is not None or isinstance(call.meant, Scope))

    def _raw(self, node: ast.Call, scope: Scope) -> RawCall | None:
        known = self._raw_calls.get(id(scope))
        if known is None:
            known = self._raw_calls[id(scope)] = {id(call.node): call for call in scope.calls}
        return known.get(id(node))

"""What the code of a function shows by itself: what it prints, which names it binds, what its results depend on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ddpdoctor.source.names.dotted_names import is_none
from ddpdoctor.source.program.index import Index
from ddpdoctor.source.program.passed_through import names_returned
from ddpdoctor.source.program.shown_parameters import shows_what_it_gets
from ddpdoctor.source.syntax.bindings import bindings
from ddpdoctor.source.syntax.scopes import Definition, Scope


@dataclass(eq=False)
class FunctionTraits:
    """Answers by function. None of them asks what an expression can be."""

    index: Index
    """Has the methods of the program's own classes, and what these assign to their attributes."""
    _showing: dict[int, bool] = field(default_factory=dict)
    _bound: dict[int, Counter[str]] = field(default_factory=dict)
    _returned: dict[int, frozenset[str]] = field(default_factory=dict)
    _holding_none: dict[tuple[int, str], bool] = field(default_factory=dict)

    def shows(self, function: Scope) -> bool:
        """Whether a function of the program prints or logs what it is given."""
        if id(function) not in self._showing:
            self._showing[id(function)] = shows_what_it_gets(function, self.index.owners)
        return self._showing[id(function)]

    def bindings(self, function: Scope) -> Counter[str]:
        """How often a function binds each name, other than as a parameter."""
        if id(function) not in self._bound:
            self._bound[id(function)] = bindings(function.node)
        return self._bound[id(function)]

    def names_returned(self, function: Scope) -> frozenset[str]:
        """The names in a function that its results can depend on."""
        if id(function) not in self._returned:
            self._returned[id(function)] = names_returned(function)
        return self._returned[id(function)]

    def gives_none(self, function: Scope, key: str) -> bool:
        """Whether one of the assignments to a name, or to an attribute of `self`, gives None."""
        asked = (id(function), key)
        if asked not in self._holding_none:
            self._holding_none[asked] = any(is_none(one.value) for one in self._definitions(key, function))
        return self._holding_none[asked]

    def _definitions(self, key: str, scope: Scope) -> Iterable[Definition]:
        owner, _, name = key.rpartition(".")
        cls = scope.of_class if owner == "self" else None
        if cls is None:
            return scope.definitions.get(key, ())
        return (each for _, each, _ in self.index.attributes.get((id(cls), name), ()))

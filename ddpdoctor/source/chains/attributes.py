"""What the attributes of objects are given, wherever the program gives it."""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from ddpdoctor.source.chains.calls import MOST_CALLERS
from ddpdoctor.source.chains.conditions import Conditions
from ddpdoctor.source.chains.points import Edge, Point
from ddpdoctor.source.dataflow.reaching_definitions import END, reaching
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.methods import is_property
from ddpdoctor.source.syntax.scopes import Definition, RawCall, Scope

MOST_BASES = 4
MOST_HOLDERS = 8  # names that an object is followed through
_NAMESPACES = frozenset({"SimpleNamespace", "Namespace", "dict", "EasyDict", "AttrDict", "Munch"})


class Attributes(Conditions, ABC):
    """Steps back from an attribute; what a step back is from other expressions, `steps` says."""

    @abstractmethod
    def steps(self, point: Point) -> Sequence[Edge]:
        """What an expression comes from."""

    @abstractmethod
    def given(self, definitions: Sequence[Definition], at: Point) -> Iterator[Edge]:
        """What these assignments give, and the tests that decide whether they do."""

    def held(self, owner: ast.expr, name: str, at: Point, hops: int = MOST_HOLDERS) -> list[Edge] | None:
        """What an attribute of an object is given, or None where that is not known, or is being asked for already."""
        if not hops:
            return None
        key = at.at(owner).key, name
        if key not in self._known_attributes:
            self._known_attributes[key] = at.at(owner), None
            self._known_attributes[key] = at.at(owner), self._held(owner, name, at, hops)
        return self._known_attributes[key][1]

    def _held(self, owner: ast.expr, name: str, at: Point, hops: int) -> list[Edge] | None:
        match owner:
            case ast.Name(id="self" | "cls") if at.scope.of_class is not None:
                return self._of_class(at.scope.of_class, name)
            case ast.Call():
                return self._of_made(owner, name, at, hops)
            case ast.Name() | ast.Attribute():
                found: list[Edge] = []
                known = False
                for edge in self.steps(at.at(owner)):
                    if edge.is_test:
                        continue
                    inner = self.held(edge.to.node, name, edge.to, hops - 1)
                    known |= inner is not None
                    found += inner if inner is not None else []
                return found if known else None
        return None

    def _of_made(self, call: ast.Call, name: str, at: Point, hops: int) -> list[Edge] | None:
        called = self.function(call, at)
        last = dotted(call.func).rpartition(".")[2]
        if called is not None and called[0].is_class:
            return self._of_class(called[0], name)
        if called is not None and not called[0].generator:
            function, site = called
            found: list[Edge] = []
            known = False
            for value, order, block in function.returns:
                place = Point(value, function, order + 1, block, at.inside(function, site))
                key = f"{dotted(value)}.{name}" if dotted(value) else ""
                given = function.definitions.get(key) if key else None
                if given:
                    found += self.given(reaching(given, order + 1, block)[0], place)
                    known = True
                elif (inner := self.held(value, name, place, hops - 1)) is not None:
                    found += inner
                    known = True
            return found if known else None
        if last in _NAMESPACES:
            return [Edge(at.at(one.value), is_same=True) for one in call.keywords if one.arg == name] or None
        if last in {"parse_args", "parse_known_args"}:
            return []  # the same command line on all ranks
        return None

    def _of_class(self, cls: Scope, name: str, hops: int = MOST_BASES) -> list[Edge] | None:
        method = self.index.project.method(cls, name)
        if method is not None:
            if not is_property(method):
                return []
            return [
                Edge(Point(value, method, order + 1, block), is_same=True) for value, order, block in method.returns
            ]
        found: list[Edge] = []
        known = False
        for scope, definition, _ in self.index.attributes.get((id(cls), name), ()):
            known = True
            found += self.given([definition], Point(_NOTHING, scope, END, scope.root))
            if not scope.is_class and scope.name not in {"__init__", "__post_init__"}:
                found += self._of_callers(scope)
        if name in cls.fields and "__init__" not in cls.functions:
            known = True
            for caller, call in self.index.constructions.get(id(cls), ())[:MOST_CALLERS]:
                found += self._field(cls, name, Point(call.node, caller, call.order, call.block), call)
        for base in self.index.project.bases(cls) if hops else ():
            inner = self._of_class(base, name, hops - 1) if isinstance(base, Scope) and base is not cls else None
            known |= inner is not None
            found += inner or ()
        return found if known else None

    @staticmethod
    def _field(cls: Scope, name: str, at: Point, call: RawCall) -> Iterator[Edge]:
        given = [one.value for one in call.node.keywords if one.arg == name]
        position = cls.fields.index(name)
        given += call.node.args[position : position + 1]
        starred = [one.value for one in call.node.keywords if one.arg is None]
        yield from (Edge(at.at(one), is_same=True) for one in given)
        yield from (Edge(at.at(one)) for one in starred if not given)


_NOTHING = ast.Constant(value=None)

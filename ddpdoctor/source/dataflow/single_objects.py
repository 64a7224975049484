"""One object of a class: what its own methods were given counts, and not what those of other objects were."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ddpdoctor.evidence.code_values import Kind
from ddpdoctor.source.dataflow.origins import At, Origins, without_context
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import Site
from ddpdoctor.source.syntax.scopes import Scope

if TYPE_CHECKING:
    from ddpdoctor.source.dataflow.values import Values


MOST_OBJECTS = 8  # places where objects of one class are made: beyond, all objects of the class are taken together


@dataclass(frozen=True, slots=True, eq=False)
class SingleObject:
    """One object: where it is made, and the classes of the program whose methods it has."""

    made: str
    """`file:line:column` of the call that makes it."""
    classes: frozenset[int]
    """Its class and the bases of this, by identity."""


@dataclass(slots=True, eq=False)
class SingleObjects:
    """The objects that are looked at one by one."""

    values: Values
    """Tells which calls make objects of a class."""
    _known: dict[tuple[int, str], SingleObject] = field(default_factory=dict)

    def find(self, cls: Scope, made: str) -> SingleObject | None:
        """The object that a call makes; None where the class has one object, or too many of them."""
        if not made or not 1 < len(self.values.index.constructions.get(id(cls), ())) <= MOST_OBJECTS:
            return None
        key = (id(cls), without_context(made))
        if key not in self._known:
            self._known[key] = SingleObject(key[1], frozenset(map(id, self._family(cls))))
        return self._known[key]

    def called(self, receiver: Origins, method: Scope) -> SingleObject | None:
        """The object whose method is called; None where it may be one of several."""
        objects = [one for one in receiver if one.kind is Kind.INSTANCE]
        cls = method.of_class
        return self.find(cls, objects[0].made) if cls is not None and len(objects) == 1 else None

    def _family(self, cls: Scope) -> list[Scope]:
        found = [cls]
        for one in found:
            found += (base for base in self.values.project.bases(one) if isinstance(base, Scope) and base not in found)
        return found


def may_be_of(values: Values, single: SingleObject, method: Scope, site: Site) -> bool:
    """Whether a call of a method can be one of this object's."""
    node, at = site.call.node, At(site.caller, site.call.order, site.call.block)
    if method.name in {"__init__", "__post_init__"}:
        return without_context(values.where(node, site.caller)) == single.made or _is_super(node.func)
    owner = node.func if method.name == "__call__" else getattr(node.func, "value", None)
    if not isinstance(owner, ast.expr) or dotted(owner).partition(".")[0] in {"self", "cls"} or _is_super(node.func):
        return True
    made = [without_context(one.made) for one in values.of(owner, at) if one.kind is Kind.INSTANCE]
    return not made or single.made in made


def _is_super(function: ast.expr) -> bool:
    owner = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(owner, ast.Call) and dotted(owner.func) == "super"

"""Functions and classes that are looked up by a text: `@register("adam")` enters one, `REGISTRY["adam"](...)` calls it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.project import Project
from ddpdoctor.source.syntax.scopes import Scope

Owner = tuple[str, str]
"""A registry: the file of its module, and its name there."""
_GIVES = frozenset({"get", "lookup", "resolve", "pop"})
"""Methods of registries that take the text, and give back what they find."""
_CALLS = frozenset({"build", "create", "make", "instantiate"})
"""Methods that take the text first, and call what they find with the rest of their arguments."""


@dataclass(frozen=True, slots=True)
class LookUp:
    """Where a registry is asked for a text."""

    owner: ast.expr
    """The expression for the registry."""
    key: ast.expr
    """The expression for the text that it is asked for."""
    first: int
    """How many arguments of the call are for the registry itself."""


@dataclass(eq=False)
class Registries:
    """What the decorators of the program have entered, by registry and text."""

    project: Project
    """Tells which registry a name stands for."""
    _tables: dict[Owner, dict[str, list[Scope]]] = field(default_factory=dict)

    def add(self, scopes: Iterable[Scope]) -> None:
        """Enter the decorated functions and classes of a file."""
        for scope in scopes:
            for decorator in scope.decorators:
                for owner in self._entered_in(decorator, scope):
                    self._tables.setdefault(owner, {}).setdefault(_key(decorator) or scope.name, []).append(scope)

    def found(self, owner: Owner, key: str) -> list[Scope]:
        """What has been entered in a registry under a text, several times where programs choose."""
        return self._tables.get(owner, {}).get(key, [])

    def owner(self, scope: Scope, name: str) -> Owner | None:
        """The registry that a dotted name stands for; None of any other name."""
        meant = self.project.resolve(scope, name) if name else ""
        if isinstance(meant, tuple):
            return meant[0].file, meant[1]
        return (meant.file, meant.name) if isinstance(meant, Scope) and meant.is_class else None

    def _entered_in(self, decorator: ast.expr, scope: Scope) -> Iterator[Owner]:
        name = dotted(decorator.func if isinstance(decorator, ast.Call) else decorator)
        around = scope.parent or scope
        meant = self.project.resolve(around, name) if name else ""
        if isinstance(meant, Scope):
            for inner in (*meant.functions.values(), meant):
                yield from self._kept_by(inner)
        else:
            owner = self.owner(around, name.rpartition(".")[0])
            if owner is not None:
                yield owner

    def _kept_by(self, function: Scope) -> Iterator[Owner]:
        """The dicts of modules in which a decorator keeps the function that it is given."""
        given = function.parameters[:1]
        for name, definitions in function.definitions.items():
            kept = (one.value for one in definitions if one.form == "change" and isinstance(one.value, ast.Name))
            if "." not in name and any(value.id in given for value in kept):
                module = function
                while module.parent is not None:
                    module = module.parent
                owner = self.owner(module, name)
                if owner is not None:
                    yield owner


def look_up(node: ast.Call) -> LookUp | None:
    """The registry that a call asks for the function that it calls; None of any other call."""
    func = node.func
    if type(func) is ast.Name:
        return None
    if type(func) is ast.Attribute:
        return LookUp(func.value, node.args[0], 1) if func.attr in _CALLS and node.args else None
    match func:
        case ast.Subscript(value=owner, slice=key):
            return LookUp(owner, key, 0)
        case ast.Call(func=ast.Attribute(value=owner, attr=how), args=[key, *_]) if how in _GIVES:
            return LookUp(owner, key, 0)
    return None


def _key(decorator: ast.expr) -> str:
    if not isinstance(decorator, ast.Call):
        return ""
    named = [one.value for one in decorator.keywords if one.arg in {"name", "key"}]
    for given in (*decorator.args[:1], *named):
        if isinstance(given, ast.Constant) and isinstance(given.value, str):
            return given.value
    return ""


def entries(written: ast.Dict) -> dict[str, ast.expr | None]:
    """What a dict holds under its texts; None under those that are there twice, or that another dict in it may replace."""
    found: dict[str, ast.expr | None] = {}
    for key, value in zip(written.keys, written.values, strict=True):
        if key is None:
            found = dict.fromkeys(found)
        elif isinstance(key, ast.Constant) and isinstance(key.value, str):
            found[key.value] = None if key.value in found else value
    return found

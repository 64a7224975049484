"""Samplers of the program's own classes: whose order only a `set_epoch` from outside changes, and which know of no rank."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Scope

_MOST_METHODS = 16  # of one class, that its __iter__ leads to
_BASES = frozenset({"Sampler", "BatchSampler", "Dataset", "IterableDataset", "object", "ABC", "Generic", "Iterable"})
"""Bases from libraries that know nothing of epochs."""
_SEEDED = ("seed", "manual_seed", "Random", "RandomState", "default_rng")
"""What the seed of a generator is given to."""
_OF_SEVERAL = re.compile(r"(?i)rank|world|replica|shard|proc|dist|node|device|fabric|accelerat")
"""What is in the names by which a sampler would ask for its part."""


def knows_no_rank(values: Values, cls: Scope) -> bool:
    """Whether a sampler derives from torch's plain ones, and no name in its classes says that it divides the data."""
    if not values.project.is_a(cls, "Sampler", "BatchSampler"):
        return False
    classes = list(_with_bases(values, cls))
    return all(
        not any(_OF_SEVERAL.search(word) for word in _words(one.node))
        if isinstance(one, Scope)
        else one.rpartition(".")[2] in _BASES
        for one in classes
    )


def needs_the_epoch(values: Values, cls: Scope) -> bool:
    """Whether `__iter__` seeds its order with an attribute that nothing but a call of `set_epoch` changes."""
    set_epoch = values.project.method(cls, "set_epoch")
    first = values.project.method(cls, "__iter__")
    if set_epoch is None or first is None:
        return False
    classes = list(_with_bases(values, cls))
    if any(isinstance(one, str) and one.rpartition(".")[2] not in _BASES for one in classes):
        return False
    owners = [one for one in classes if isinstance(one, Scope)]
    assigned = {key for key, given in set_epoch.definitions.items() if any(one.form == "assign" for one in given)}
    kept = {key.removeprefix("self.") for key in assigned if key.startswith("self.")}
    methods = _led_to(owners, first)
    return any(
        _seeds(method.node, name) and not _assigned_elsewhere(values, owners, name)
        for name in sorted(kept)
        for method in methods
    )


def _with_bases(values: Values, cls: Scope) -> Iterator[Scope | str]:
    todo: list[Scope | str] = [cls]
    seen: set[int] = set()
    while todo:
        one = todo.pop()
        if isinstance(one, Scope):
            if id(one) in seen:
                continue
            seen.add(id(one))
            todo += values.project.bases(one)
        yield one


def _led_to(owners: list[Scope], first: Scope) -> list[Scope]:
    """A method and those of the object and its bases that it leads to; a property counts, too."""
    found = [first]
    for method in found:
        asked = {node.attr for node in ast.walk(method.node) if isinstance(node, ast.Attribute) and _is_own(node.value)}
        for name in sorted(asked):
            found += [
                cls.functions[name] for cls in owners if name in cls.functions and cls.functions[name] not in found
            ]
        if len(found) >= _MOST_METHODS:
            break
    return found


def _is_own(node: ast.expr) -> bool:
    return dotted(node) == "self" or (isinstance(node, ast.Call) and dotted(node.func) == "super")


def _seeds(method: ast.AST, name: str) -> bool:
    """Whether a method seeds a generator with `self.name`, also through a name that it assigns first."""
    holding = {f"self.{name}"}
    for node in ast.walk(method):
        if isinstance(node, ast.Assign) and _reads(node.value, holding):
            holding |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return any(
        _reads(given, holding)
        for node in ast.walk(method)
        if isinstance(node, ast.Call) and (dotted(node.func) or _last(node.func)).rpartition(".")[2] in _SEEDED
        for given in (*node.args, *(keyword.value for keyword in node.keywords))
    )


def _last(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else ""


def _words(cls: ast.AST) -> Iterator[str]:
    """All names and texts in a class."""
    for node in ast.walk(cls):
        word = next((getattr(node, name) for name in ("id", "attr", "arg", "value") if hasattr(node, name)), None)
        if isinstance(word, str):
            yield word


def _reads(node: ast.expr, names: set[str]) -> bool:
    return any(dotted(one) in names for one in ast.walk(node) if isinstance(one, ast.Attribute | ast.Name))


def _assigned_elsewhere(values: Values, owners: list[Scope], name: str) -> bool:
    """Whether a method other than the constructor and `set_epoch`, or code outside of the class, sets an attribute."""
    for cls in owners:
        given = values.index.attributes.get((id(cls), name), ())
        if any(_method_around(scope) not in {"__init__", "set_epoch", ""} for scope, _, _ in given):
            return True
    if values.code.assigned_outside(owners[0], name):
        return True
    near = values.code.files_near(owners[0].file)
    return any(
        scope.file in near
        and len(call.node.args) > 1
        and isinstance(call.node.args[1], ast.Constant)
        and call.node.args[1].value == name
        for scope, call in values.index.named.get("setattr", ())
    )


def _method_around(scope: Scope) -> str:
    """The method that a scope is, or is a part of; empty of a class body."""
    at = scope
    while at.parent is not None and not at.parent.is_class:
        at = at.parent
    return "" if at.is_class else at.name

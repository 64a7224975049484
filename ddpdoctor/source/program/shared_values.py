"""Where a value becomes equal on all ranks without an assignment: `all_reduce(x)`, or a function that does so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

from ddpdoctor.source.names import framework_names
from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.program.index import Index
from ddpdoctor.source.syntax.scopes import Definition, RawCall, Scope

_EQUALIZES = (
    "all_reduce", "reduce_", "_reduce", "reduced", "all_gather", "gather", "broadcast", "synchronize", "sync_", "_sync",
    "allreduce", "aggregate", "average_across", "across", "global_mean", "dist_mean", "dist_avg", "collect", "allgather",
    "mean_reduce", "psum", "compute",
)  # fmt: skip
"""Parts of names of functions that make a value equal on all ranks."""
_EQUALIZES_NOT = (
    "clip", "zero", "index", "scatter", "no_sync", "backward_sync", "batchnorm", "batch_norm", "async", "barrier", "uncollected",
)  # fmt: skip
"""Parts of names that look like those and are something else."""
_PASS_ON = frozenset({"enumerate", "zip", "sorted", "list", "tuple", "reversed"})


@dataclass(eq=False)
class SharedValues:
    """Finds such calls, and enters them among the definitions of what they change."""

    index: Index
    """Tells which function a call calls."""
    _known: dict[int, list[tuple[RawCall, str]]] = field(default_factory=dict)

    def enter(self, scope: Scope) -> None:
        """Add a definition for every name of `scope` that a call makes equal."""
        changed = set()
        for call, key in self.made_equal(scope):
            first = call.node.args[0] if call.node.args else call.node.func
            own = isinstance(call.node.func, ast.Attribute) and dotted(call.node.func.value) == key
            definition = Definition(
                call.order, call.block, first, "shared", kills=not own, line=call.node.lineno
            )  # `meter.sync()` leaves the meter what it is
            scope.definitions.setdefault(key, []).append(definition)
            changed.add(key)
        for key in changed:
            scope.definitions[key].sort(key=lambda definition: definition.order)

    def made_equal(self, scope: Scope) -> list[tuple[RawCall, str]]:
        """Each call with a name that it makes equal on all ranks; functions that it calls are read first, without recursion."""
        pending = [self._opened(scope)] if id(scope) not in self._known else []
        while pending:
            at, called = pending[-1]
            unread = next((one for one in called if id(one) not in self._known), None)
            if unread is not None:
                pending.append(self._opened(unread))
                continue
            pending.pop()
            found: list[tuple[RawCall, str]] = []
            listed: dict[str, list[str]] = {}
            for call in at.calls:
                for key in self._keys(at, call):
                    if key not in listed:
                        listed[key] = _and_listed(at, key)
                    found += [(call, each) for each in listed[key]]
            self._known[id(at)] = found
        return self._known[id(scope)]

    def _opened(self, scope: Scope) -> tuple[Scope, Iterator[Scope]]:
        """A function and those that it calls. Until it is read, a call of it adds nothing, as where it calls itself."""
        self._known[id(scope)] = []
        return scope, (call.target for call in scope.calls if call.target is not None)

    def _keys(self, scope: Scope, call: RawCall) -> list[str]:
        node, last, target = call.node, call.last, call.target
        if not last:
            return []
        if last == "compute" and self._counts_alone(scope, call.name[: -len(last) - 1]):
            return []
        sharing = makes_equal(last) or (last in names.COLLECTIVES and "barrier" not in last)
        if target is None and not sharing and last not in self.index.owners:
            return []
        owner = call.name[: -len(last) - 1]
        if target is not None:
            return self._through(node, target, owner)
        owners = self.index.owners.get(last, ()) if owner and not sharing else ()
        method = owners[0].functions[last] if len(owners) == 1 else None
        if (
            method is not None
            and makes_collective(method)
            and any(key.startswith("self.") for key in method.definitions)
        ):
            return [owner]  # `meter.sync()`: the object's own sums are reduced
        if not sharing:
            return []
        filled = node.args[:1] if last in names.FILLS_ITS_FIRST else node.args
        found = [key for argument in filled for key in _changed(argument)]
        found += [
            dotted(keyword.value)
            for keyword in node.keywords
            if keyword.arg in {"tensor", "tensor_list", "object_list"}
        ]
        of_arguments = (
            bool(node.args) and last in names.COLLECTIVES | framework_names.OF_ACCELERATE | framework_names.OF_FABRIC
        )
        if owner and not of_arguments and owner.partition(".")[0] not in self._modules(scope):
            found.append(owner)
        return [key for key in found if key]

    def _counts_alone(self, scope: Scope, owner: str) -> bool:
        """Whether a name holds a metric of `evaluate`, which computes what its own process has given it."""
        at: Scope | None = scope
        while at is not None and owner not in at.definitions:
            at = at.parent
        made = (
            [one.value.func for one in at.definitions[owner] if isinstance(one.value, ast.Call)]
            if at is not None
            else []
        )
        meant = (self.index.project.resolve(scope, dotted(each)) for each in made if dotted(each))
        return any(isinstance(each, str) and names.FUNCTIONS.get(each) == "own-metric" for each in meant)

    def _through(self, node: ast.Call, target: Scope, owner: str) -> list[str]:
        equal: dict[str, set[str]] = {}
        for _, key in self.made_equal(target):
            name, dot, rest = key.partition(".")
            equal.setdefault(name, {""}).add(f"{dot}{rest}")
        method = target.parent is not None and target.parent.is_class
        names_of = target.parameters[1:] if method else target.parameters
        given = [(dotted(argument), name) for argument, name in zip(node.args, names_of, strict=False)]
        given += [(dotted(keyword.value), keyword.arg) for keyword in node.keywords if keyword.arg is not None]
        if method and owner != "self":
            given.append((owner, "self"))
        return [f"{key}{rest}" for key, name in given if key for rest in sorted(equal.get(name, ()))]

    def _modules(self, scope: Scope) -> set[str]:
        at: Scope | None = scope
        found: set[str] = set()
        while at is not None:
            found.update(at.imports)
            at = at.parent
        return found | {"self", "torch", "dist"}


def _changed(argument: ast.expr) -> list[str]:
    """The names that change with an argument: `sums` and `sums['loss']` of `sums["loss"]`."""
    if isinstance(argument, ast.Subscript) and (owner := dotted(argument.value)):
        key = argument.slice.value if isinstance(argument.slice, ast.Constant) else None
        return [owner] if key is None else [owner, f"{owner}[{key!r}]"]
    return [dotted(argument)]


def _and_listed(scope: Scope, key: str) -> list[str]:
    """A name, and where it is of a list or dict, or a loop gives it the tensors of one, the names of these: `for t in (a, b)`."""
    found = [key, *_members(scope, key)]
    for definition in scope.definitions.get(key, ()):
        over = _gone_over(definition.value) if definition.form == "for" else None
        if isinstance(over, ast.Tuple | ast.List):
            found += [dotted(part) for part in over.elts]
        elif (
            isinstance(over, ast.Call)
            and isinstance(over.func, ast.Attribute)
            and over.func.attr in {"values", "items"}
        ):
            found += [dotted(over.func.value), *_members(scope, dotted(over.func.value))]
        elif isinstance(over, ast.Name | ast.Attribute):
            found += [dotted(over), *_members(scope, dotted(over))]
    return [each for each in found if each]


def _members(scope: Scope, key: str) -> list[str]:
    """The names of the tensors in the list or dict that a name holds: `a` and `b` of `tensors = [a, b]`."""
    given = [one.value for one in scope.definitions.get(key, ()) if one.form == "assign"]
    written = given[0] if len(given) == 1 else None
    if isinstance(written, ast.Dict):
        return [dotted(part) for part in written.values]
    return [dotted(part) for part in written.elts] if isinstance(written, ast.List | ast.Tuple) else []


def _gone_over(node: ast.expr | None) -> ast.expr | None:
    """What a loop goes over, taken out of calls that number or order it: the list of `enumerate(list(tensors))`."""
    while isinstance(node, ast.Call) and dotted(node.func) in _PASS_ON and node.args:
        node = node.args[0] if len(node.args) == 1 or dotted(node.func) != "zip" else _together(node.args)
    return node


def _together(lists: list[ast.expr]) -> ast.expr:
    """The members of all lists that `zip` goes over."""
    found = [part for each in lists for part in (each.elts if isinstance(each, ast.Tuple | ast.List) else [each])]
    return ast.List(elts=found, ctx=ast.Load())


def makes_collective(function: Scope) -> bool:
    """Whether a function makes a collective itself, whose result it may give back or keep."""
    return any(call.last in names.COLLECTIVES and "barrier" not in call.last for call in function.calls)


@lru_cache(names.MOST_NAMES)
def makes_equal(last: str) -> bool:
    """Whether the last part of a name says that the function makes a value equal on all ranks."""
    lower = last.lower()
    return any(word in lower for word in _EQUALIZES) and not any(word in lower for word in _EQUALIZES_NOT)

"""Which arguments of a call its result can depend on, by the names in the function alone."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Block, Scope


def given_back(node: ast.Call, function: Scope, used: frozenset[str]) -> list[ast.expr]:
    """The arguments of a call that decide what the function returns, or when; all of them where that is not known.

    `used` are the names in the function that its results can depend on.
    """
    if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        return [*node.args, *(one.value for one in node.keywords)]
    method = function.parent is not None and function.parent.is_class
    names = function.parameters[1:] if method else function.parameters
    taken = dict(zip(names, node.args, strict=False)) | {one.arg or "": one.value for one in node.keywords}
    return [value for name, value in taken.items() if name in used or name not in names] + node.args[len(names) :]


def itself(node: ast.Call, function: Scope) -> ast.expr | None:
    """What is given back as it is: of `inject(model)` the argument, of `trainer.add(hook)` with `return self` its object."""
    names = {dotted(value) for value, _, _ in function.returns}
    name = names.pop() if len(names) == 1 else ""
    known = name in function.parameters and name not in function.definitions
    if not known or function.generator or function.decorators:
        return None
    if function.of_class is not None:
        fluent = name == "self" and function.parent is function.of_class
        return node.func.value if fluent and isinstance(node.func, ast.Attribute) else None
    position = function.parameters.index(name)
    plain = not any(isinstance(one, ast.Starred) for one in node.args[: position + 1])
    named = next((one.value for one in node.keywords if one.arg == name), None)
    return node.args[position] if plain and position < len(node.args) else named


def names_returned(function: Scope) -> frozenset[str]:
    """Every name in a function that a result of it can depend on, through assignments, calls and tests.

    An attribute of `self` is a name of its own, and `self` stands for what other methods change.
    """
    leads_to: dict[str, list[ast.AST | None]] = {}
    for key, given in function.definitions.items():
        for one in given:
            leads_to.setdefault(_name_of(key), []).extend((one.value, *_decide(one.block)))
    for each in function.calls:  # `history.add(loss)` changes what `history` holds
        owner = dotted(each.node.func.value) if isinstance(each.node.func, ast.Attribute) else ""
        if owner:
            parts = (*each.node.args, *(one.value for one in each.node.keywords), *_decide(each.block))
            leads_to.setdefault(_name_of(owner), []).extend(parts)
    for name, inner in function.functions.items():
        leads_to.setdefault(name, []).append(inner.node)
    found: set[str] = set()
    read: set[int] = set()
    pending = [part for value, _, block in function.returns for part in (value, *_decide(block))]
    while pending:
        unread = {id(part): part for part in pending if part is not None and id(part) not in read}
        read |= unread.keys()
        fresh = {name for part in unread.values() for name in _names(part)} - found
        found |= fresh
        pending = [part for name in fresh for part in leads_to.get(name, ())]
    return frozenset(found)


def _name_of(key: str) -> str:
    """The name that a key of an assignment begins with; of `self.best[0]` it is `self.best`."""
    first, _, rest = key.partition("[")[0].partition(".")
    return f"self.{rest.partition('.')[0]}" if first == "self" and rest else first


def _names(part: ast.AST) -> Iterator[str]:
    for each in ast.walk(part):
        if isinstance(each, ast.Name):
            yield each.id
        elif isinstance(each, ast.Attribute) and dotted(each).startswith("self."):
            yield _name_of(dotted(each))


def _decide(block: Block) -> Iterator[ast.AST | None]:
    """What decides whether a block runs: the tests and loops around it."""
    for at in block.chain():
        yield at.test if at.test is not None else getattr(at.node, "test", None) or getattr(at.node, "iter", None)

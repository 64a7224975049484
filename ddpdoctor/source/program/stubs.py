"""Methods that a class leaves to the class below it: `raise NotImplementedError`, `...`, `@abstractmethod`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Scope

MOST_BELOW = 50  # classes below one that are looked at


def is_stub(method: Scope) -> bool:
    """Whether a method does nothing of its own."""
    if any(dotted(one).rpartition(".")[2] == "abstractmethod" for one in method.decorators):
        return True
    body = getattr(method.node, "body", ())
    return bool(body) and isinstance(body, list) and all(_does_nothing(one) for one in body)


def _does_nothing(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Pass | ast.Raise) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def only_override(method: Scope, below: Mapping[int, Sequence[Scope]]) -> Scope | None:
    """The one method that takes the place of another in the classes below its own; None where there are several, or none."""
    found = [cls.functions[method.name] for cls in _all_below(method.parent, below) if method.name in cls.functions]
    real = [one for one in found if not is_stub(one)]
    return real[0] if len(real) == 1 else None


def _all_below(cls: Scope | None, below: Mapping[int, Sequence[Scope]]) -> Iterator[Scope]:
    waiting = list(below.get(id(cls), ()))
    seen: set[int] = set()
    while waiting and len(seen) < MOST_BELOW:
        at = waiting.pop()
        if id(at) not in seen:
            seen.add(id(at))
            yield at
            waiting += below.get(id(at), ())

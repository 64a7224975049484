"""How a method is called, by its decorators."""

from __future__ import annotations

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Scope


def is_property(scope: Scope) -> bool:
    """Whether a method is read like an attribute: what is called is then what it returns."""
    return any(dotted(decorator).endswith("property") for decorator in scope.decorators)


def takes_its_object(scope: Scope) -> bool:
    """Whether the first parameter of a function is the object or class that it is called on."""
    in_class = scope.parent is not None and scope.parent.is_class
    return in_class and not any(dotted(decorator) == "staticmethod" for decorator in scope.decorators)

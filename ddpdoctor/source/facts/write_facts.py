"""The facts about assignments that write into weights, their gradients, or the settings of an optimizer.

They are calls: `group["lr"] = 0.1` is what Python makes of `group.__setitem__("lr", 0.1)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import Argument, Call
from ddpdoctor.source.dataflow.decided_branches import has_left, is_dead
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.dataflow.weights import settings_of, weights_of
from ddpdoctor.source.facts.guards import value_of
from ddpdoctor.source.facts.surroundings import Surroundings
from ddpdoctor.source.names.dotted_names import dotted, is_gradient
from ddpdoctor.source.syntax.scopes import RawWrite, Scope

_SETTINGS = frozenset({"lr", "momentum", "weight_decay", "betas", "eps", "dampening", "nesterov"})
"""The keys of an optimizer's groups that decide its step."""
_WEIGHTS = (".data", ".weight", ".bias")


@dataclass(frozen=True, slots=True)
class WriteFacts:
    """Makes the facts about writes."""

    values: Values
    """Tells what is written, and where to."""
    places: Surroundings
    """Tells where an assignment stands."""

    def of(self, scope: Scope) -> Iterator[Call]:
        """The writes of a function."""
        for raw in scope.writes:
            if (call := self._write(raw, scope)) is not None:
                yield call

    def _write(self, raw: RawWrite, scope: Scope) -> Call | None:
        at, target = At(scope, raw.order, raw.block), raw.target
        if _setting(target):
            assert isinstance(target, ast.Subscript)
            does, into = "write-setting", settings_of(self.values, target.value, at)
        elif isinstance(target, ast.Subscript) and is_gradient(target):
            does, into = "change-gradient", (Origin(kind=Kind.UNKNOWN),)
        elif _may_be_weights(target, scope):
            does, into = "write-weights", weights_of(self.values, target, at)
        else:
            return None
        if not into or is_dead(self.values, raw.block, scope) or has_left(self.values, raw.block, raw.order, scope):
            return None
        around = self.places.around(raw.block, raw.order, scope)
        return Call(
            place=self.places.place(scope, target),
            variant=self.places.suffix(scope),
            text=self.values.text(target, scope),
            name=".__setattr__" if isinstance(target, ast.Attribute) and raw.replaces else ".__setitem__",
            does=does,
            order=raw.order,
            arguments=(Argument(name="0", value=value_of(self.values, raw.value, at)),),
            receiver=Value(text=self.values.text(target, scope), origins=into if does != "change-gradient" else ()),
            guards=around.guards,
            loops=around.loops,
            contexts=around.contexts,
        )


def _setting(target: ast.expr) -> bool:
    key = target.slice.value if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant) else None
    return isinstance(key, str) and key in _SETTINGS


def _may_be_weights(target: ast.expr, scope: Scope) -> bool:
    """Whether a target is written as the data of a parameter, or as a part of it or of what a loop gives."""
    if isinstance(target, ast.Attribute):
        return True
    assert isinstance(target, ast.Subscript)
    if isinstance(target.slice, ast.Constant) and isinstance(target.slice.value, str):
        return False
    name = dotted(target.value)
    looped = any(one.form == "for" for one in scope.definitions.get(name, ()))
    return name.endswith(_WEIGHTS) or looped

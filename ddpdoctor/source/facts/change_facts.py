"""The facts about assignments to attributes that rules ask for: gradients, flags, parts of models."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ddpdoctor.evidence.code_values import Kind, Origin, Value
from ddpdoctor.evidence.training_code import STOPS, Change, Place
from ddpdoctor.source.dataflow.decided_branches import has_left, is_dead
from ddpdoctor.source.dataflow.object_attributes import held_around, named_object
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.facts.guards import line_of, value_of
from ddpdoctor.source.facts.surroundings import Surroundings
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.loop_counters import never_holds
from ddpdoctor.source.syntax.scopes import Definition, Scope

_WATCHED = frozenset({"requires_grad", "require_backward_grad_sync", "grad", "output_dir", *STOPS})


@dataclass(frozen=True, slots=True)
class ChangeFacts:
    """Makes the facts about changes."""

    values: Values
    """Tells what is assigned."""
    places: Surroundings
    """Tells where an assignment stands."""

    def of(self, scope: Scope) -> Iterator[Change]:
        """The changes in a function."""
        yield from self._changes(scope)
        yield from self._late_changes(scope)

    def _changes(self, scope: Scope) -> Iterator[Change]:
        for key, definitions in scope.definitions.items():
            owner, _, attribute = key.rpartition(".")
            if not owner or "[" in key or (owner == "self" and not self._is_later_method(scope)):
                continue
            forms = {"assign", "augment"} if "grad" in (attribute, owner.rpartition(".")[2]) else {"assign"}
            for definition in definitions:
                if definition.form not in forms or definition.value is None:
                    continue
                if is_dead(self.values, definition.block, scope) or has_left(
                    self.values, definition.block, definition.order, scope
                ):
                    continue
                at = At(scope, definition.order, definition.block)
                value = _scaled(value_of(self.values, definition.value, at), definition.operator)
                if attribute == "require_backward_grad_sync" and never_holds(definition.value, scope):
                    value = replace(value, origins=(Origin(kind=Kind.CONSTANT, text="False"),))
                watched = owner != "self" and (attribute in _WATCHED or len(forms) > 1)
                if watched or value.may(Kind.MODEL):
                    file, line = line_of(self.values, scope, definition.line)
                    yield Change(
                        place=Place(file=file, line=line, column=1, function=scope.name),
                        key=key,
                        value=value,
                        order=definition.order,
                        owner=Value(text=owner, origins=self._owner(owner, definition, at)),
                        guards=self.places.guards.around(definition.block, definition.order, scope),
                    )

    def _is_later_method(self, scope: Scope) -> bool:
        """Whether it is a method of a model that does not make the model: what it assigns to `self` replaces a part."""
        cls = scope.of_class
        return cls is not None and scope.name != "__init__" and self.values.project.is_a(cls, "Module")

    def _owner(self, name: str, definition: Definition, at: At) -> tuple[Origin, ...]:
        """The object whose attribute is assigned to; of a part of a model, that model, too."""
        named = named_object(self.values, name.removesuffix(".grad"), at)
        if named or definition.owner is None:
            return named
        if (
            isinstance(definition.owner, ast.Attribute) and dotted(definition.owner) == name
        ):  # `net.head.requires_grad_()`
            inner, outer = definition.owner, definition.owner.value
            return (*held_around(self.values, inner, at), *held_around(self.values, outer, at))
        return held_around(self.values, definition.owner, at) if ".module" in name else named

    def _late_changes(self, scope: Scope) -> Iterator[Change]:
        """The changes of parts that no name stands for, where the object that they belong to is known."""
        for raw in scope.changes:
            at = At(scope, raw.order, raw.block)
            value = value_of(self.values, raw.value, at)
            if not raw.key.endswith(".requires_grad") and not value.may(Kind.MODEL):
                continue
            owner = held_around(self.values, raw.owner, at)
            if (
                not owner
                or is_dead(self.values, raw.block, scope)
                or has_left(self.values, raw.block, raw.order, scope)
            ):
                continue
            file, line = line_of(self.values, scope, raw.line)
            yield Change(
                place=Place(file=file, line=line, column=1, function=scope.name),
                key=raw.key,
                value=value,
                order=raw.order,
                owner=Value(text=raw.key.rpartition(".")[0], origins=owner),
                guards=self.places.guards.around(raw.block, raw.order, scope),
                adds=raw.adds,
            )


def _scaled(value: Value, operator: str) -> Value:
    """What `x.grad /= n` takes: a world size that divides."""
    note = {"Div": "divides", "Mult": "multiplies"}.get(operator, "")
    if not note:
        return value
    sized = (replace(one, note=note) if one.kind is Kind.WORLD_SIZE else one for one in value.origins)
    return replace(value, origins=tuple(sized))

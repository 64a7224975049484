"""The evaluator: answers what an expression can be by the modules of this package, of which each knows one part."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.source.dataflow.assigned_values import given_by
from ddpdoctor.source.dataflow.call_meanings import found_meaning
from ddpdoctor.source.dataflow.expressions import evaluate
from ddpdoctor.source.dataflow.listed_objects import ListedObjects
from ddpdoctor.source.dataflow.origins import At, Meaning, Origins
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.syntax.scopes import Scope


@dataclass(eq=False)
class Evaluator(Values):
    """Follows names, parameters, attributes, and functions across modules."""

    _meanings: dict[Hashable, Meaning] = field(default_factory=dict)
    """What calls are for, once that is known: by the call, the context and the object."""

    @cached_property
    def _lists(self) -> ListedObjects:
        """What the lists of the program hold."""
        return ListedObjects(self)

    evaluate = evaluate
    assigned = given_by

    def meaning(self, node: ast.Call, at: At) -> Meaning:
        """What a call is for."""
        context = None if self.context is None else self.context_in(at.scope)
        single = None if self.single is None else self.single_in(at.scope)
        key = id(node) if context is None and single is None else (id(node), id(context), id(single))
        if (known := self._meanings.get(key)) is not None:
            return known
        found, whole = found_meaning(self, node, at)
        if whole:
            self._meanings[key] = found
        return found

    def objects_in(self, node: ast.expr, at: At) -> Origins:
        """The objects of the program's classes in a list that a loop goes over."""
        return self.once(
            (id(node), "listed"), self.context_in(at.scope), self.single_in(at.scope), self._listed, node, at
        )

    def _listed(self, node: ast.expr, at: At) -> Iterator[Origin]:
        return (each.object or Origin(kind=Kind.UNKNOWN, text="item") for each in self._lists.of(node, at))

    def methods_of_each(self, node: ast.Call, at: At) -> Iterator[tuple[Scope, At]]:
        """The methods that a call of a loop's variable stands for, and where the object of each is put into the list."""
        return self._lists.methods_of_each(node, at)

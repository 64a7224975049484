"""Methods that a framework calls in every process: of hooks, callbacks and modules of the program's own classes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.analysis.training_code.guards import may_ask_for_rank
from ddpdoctor.evidence.training_code import Guard
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.facts.guards import Guards
from ddpdoctor.source.names import framework_names
from ddpdoctor.source.program.classes import is_trainer
from ddpdoctor.source.syntax.scopes import RawCall, Scope

MOST_BASES = 8  # classes above one
MOST_MADE = 8  # places where objects of a class are made
MOST_CALLERS = 3  # functions from such a place to the start


@dataclass(frozen=True, eq=False)
class FrameworkHooks:
    """Tells whether a method is one of these, and which framework calls it."""

    values: Values
    """Tells the bases of classes and who makes their objects."""
    guards: Guards
    """Tells under which tests an object is made."""

    def is_hook(self, scope: Scope) -> bool:
        """Whether a framework calls a method on every rank: of a hook or a callback of a class of its own."""
        cls = scope.parent
        named = scope.name.startswith(framework_names.HOOK_METHODS)
        return named and cls is not None and cls.is_class and self._package(cls, framework_names.HOOK_CLASSES) != ""

    def framework(self, scope: Scope) -> str:
        """The framework that calls a method in every process; empty where an object of the class may be one rank's."""
        cls = scope.parent
        if cls is None or not cls.is_class:
            return ""
        package = ""
        if scope.name in framework_names.HOOKS_OF_LIGHTNING:
            package = self._package(cls, ("LightningModule", "Callback"))
        elif scope.name in framework_names.HOOKS_OF_TRANSFORMERS:
            package = self._package(cls, ("TrainerCallback",))
        return framework_names.FRAMEWORKS.get(package, "") if package and self._made_by_all(cls) else ""

    def gives_a_loss(self, scope: Scope) -> bool:
        """Whether a framework makes the backward of what a method returns: of `training_step`, of a Trainer's `compute_loss`."""
        cls = scope.parent
        if cls is None or not cls.is_class or scope.name not in framework_names.STEPS_OF_TRAINERS:
            return False
        lightning = scope.name == "training_step" and self.values.project.is_a(cls, "LightningModule")
        return lightning or (scope.name == "compute_loss" and is_trainer(self.values.project, cls))

    def _package(self, cls: Scope, classes: tuple[str, ...], hops: int = MOST_BASES) -> str:
        """The package of the framework's class among `classes` from which a class is derived; empty where it is not."""
        for base in self.values.project.bases(cls):
            if isinstance(base, Scope):
                found = self._package(base, classes, hops - 1) if hops else ""
            else:
                first = base.partition(".")[0]
                found = first if first in framework_names.HOOK_PACKAGES and base.rpartition(".")[2] in classes else ""
            if found:
                return found
        return ""

    def _made_by_all(self, cls: Scope) -> bool:
        """Whether objects of a class are made, and no place where one is made or handed on is under a test of the rank."""
        near = self.values.code.files_near(cls.file)
        classes = [cls, *(one for one in self.values.index.below.get(id(cls), ()) if one.file in near)]
        made = [
            each
            for one in classes[:MOST_MADE]
            for each in self.values.index.constructions.get(id(one), ())
            if each[0].file in near
        ]
        places = [place for scope, call in made[:MOST_MADE] for place in _handed_on(scope, call)]
        return bool(places) and not any(self._by_some(*place, MOST_CALLERS) for place in places)

    def _by_some(self, scope: Scope, call: RawCall, hops: int) -> bool:
        """Whether a test that may ask for the rank stands around a call, its function, or a call of that."""
        around: Iterator[Guard] | tuple[Guard, ...] = self.guards.around(call.block, call.order, scope)
        if any(
            one.by_rank is not None or may_ask_for_rank(one) for one in (*around, *self.guards.of_decorators(scope))
        ):
            return True
        sites = self.values.code.calls_of(scope) if hops and scope.parent is not None else ()
        return any(self._by_some(site.caller, site.call, hops - 1) for site in sites[:MOST_MADE])


def _handed_on(scope: Scope, made: RawCall) -> Iterator[tuple[Scope, RawCall]]:
    """The call that makes an object, and the calls of its function that take the name which the object gets."""
    yield scope, made
    own = {
        name
        for name, given in scope.definitions.items()
        for one in given
        if one.form == "assign" and one.value is made.node
    }
    for call in scope.calls if own else ():
        given = (*call.node.args, *(one.value for one in call.node.keywords))
        if any(isinstance(each, ast.Name) and each.id in own for one in given for each in ast.walk(one)):
            yield scope, call

"""What an expression can be, found when it is asked for: the questions that the modules of this package ask of each other.

They ask in rings: an attribute is what was assigned to it, and that may be another attribute. Each of them knows `Values`. The
questions that close the rings are abstract here, and answered in `evaluator.py`, which knows all of them.
"""

from __future__ import annotations

import ast
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from typing_extensions import TypeVarTuple, Unpack

from ddpdoctor.evidence.code_values import Origin
from ddpdoctor.source.dataflow.answers import Answers
from ddpdoctor.source.dataflow.origins import At, Meaning, Origins, constant, joined, without_context
from ddpdoctor.source.dataflow.reaching_definitions import END, only_definition
from ddpdoctor.source.dataflow.single_objects import SingleObject, SingleObjects
from ddpdoctor.source.dataflow.substitution import Substitutions
from ddpdoctor.source.program.calling_contexts import CallingContext, Contexts
from ddpdoctor.source.program.function_traits import FunctionTraits
from ddpdoctor.source.program.index import Index
from ddpdoctor.source.program.program_code import ProgramCode
from ddpdoctor.source.program.project import Project
from ddpdoctor.source.syntax.code_text import segment
from ddpdoctor.source.syntax.scopes import Definition, RawCall, Scope

DEEPEST = 400  # questions within each other; where some are cut off, which was asked first decides what is known
FRAMES = 40  # of Python's stack for each of them, at most
T = TypeVar("T")
Ts = TypeVarTuple("Ts")


@dataclass(eq=False)
class Values(ABC):
    """What is asked, by which call and of which object. An answer is a tuple of alternatives, empty where nothing is known."""

    code: ProgramCode
    """The code of the run: who calls a function, who sets an attribute, what is written where."""
    answers: Answers[Origins] = field(default_factory=Answers)
    """What expressions, parameters, attributes and functions can be."""
    substitutions: Substitutions = field(default_factory=Substitutions)
    """Expressions with literals, or elements of a list, in place of names."""
    context: CallingContext | None = None
    """The call by which the function is looked at that is evaluated now; None where all of its callers count."""
    single: SingleObject | None = None
    """The object whose attributes and methods are evaluated now; None where all objects of the class count."""
    project: Project = field(init=False)
    """The files of the run and the names that they import."""
    index: Index = field(init=False)
    """Who calls and sets what, over all files."""
    _depth: int = 0

    def __post_init__(self) -> None:
        """Both are asked for at every step."""
        self.project, self.index = self.code.project, self.code.index

    @abstractmethod
    def evaluate(self, node: ast.expr, at: At) -> Iterable[Origin]:
        """The alternatives of an expression, from what its parts can be."""

    @abstractmethod
    def assigned(self, key: str, definition: Definition, scope: Scope) -> Origins:
        """What an assignment gives a name."""

    @abstractmethod
    def meaning(self, node: ast.Call, at: At) -> Meaning:
        """What a call is for."""

    @abstractmethod
    def objects_in(self, node: ast.expr, at: At) -> Origins:
        """The objects of the program's classes in a list that a loop goes over."""

    @abstractmethod
    def methods_of_each(self, node: ast.Call, at: At) -> Iterator[tuple[Scope, At]]:
        """The methods that a call of a loop's variable stands for, and where the object of each is put into the list."""

    @cached_property
    def functions(self) -> FunctionTraits:
        """What each function shows by itself."""
        return FunctionTraits(self.index)

    @cached_property
    def contexts(self) -> Contexts:
        """The functions that are looked at call by call."""
        return Contexts(self.code.calls_of)

    @cached_property
    def objects(self) -> SingleObjects:
        """The objects of the program's classes that are looked at one by one."""
        return SingleObjects(self.code, self.contexts)

    def release(self) -> None:
        """Forget all: what is kept here refers to this object, so that only the collector would free the trees."""
        self.__dict__.clear()

    # questions

    def of(self, node: ast.expr | None, at: At) -> Origins:
        """Every alternative of an expression at a place."""
        if node is None or self._depth > DEEPEST:
            return ()
        if type(node) is ast.Constant:
            return constant(node.value)
        outer, around = self.context, self.single
        inner = None if outer is None else self.context_in(at.scope)
        single = None if around is None else self.single_in(at.scope)
        asked: Hashable = (id(node), id(at.scope) if at.order == END else at.order)
        key = asked if inner is None and single is None else (asked, id(inner), id(single))
        if (found := self.answers.whole.get(key)) is not None:
            return found
        if type(node) is ast.Name and inner is None and key not in self.answers.partial:
            given = self._given_by_one(node.id, at, single)
            if given is not None:
                return given
        self._depth += 1
        self.context, self.single = inner, single
        try:
            return self.answers.ask(key, _joined, self.evaluate, node, at) or ()
        finally:
            self._depth -= 1
            self.context, self.single = outer, around

    def _given_by_one(self, name: str, at: At, single: SingleObject | None) -> Origins | None:
        """What the only definition of a variable gives, where that is known already: so it is for most names in functions."""
        if at.scope.parent is None:  # other functions may assign to a variable of a module
            return None
        given = at.scope.definitions.get(name)
        only = only_definition(given, at.order, at.block) if given else None
        if only is None:
            return None
        key = (id(only), "given")
        return self.answers.whole.get(key if single is None else _question(key, None, single))

    def defined(self, key: str, definition: Definition, scope: Scope) -> Origins:
        """What one assignment gives a name; the same wherever the name is used."""
        context = None if self.context is None else self.context_in(scope)
        single = None if self.single is None else self.single_in(scope)
        return self.once((id(definition), "given"), context, single, self.assigned, key, definition, scope)

    def once(
        self,
        key: tuple[int, str],
        context: CallingContext | None,
        single: SingleObject | None,
        find: Callable[[Unpack[Ts]], Iterable[Origin]],
        *args: Unpack[Ts],
    ) -> Origins:
        """What `find` gives in a context and of an object, sought once; nothing where it is asked for while it is sought."""
        asked = key if context is None and single is None else _question(key, context, single)
        if (found := self.answers.whole.get(asked)) is not None:
            return found
        outer, around = self.context, self.single
        self.context, self.single = context, single
        try:
            return self.answers.ask(asked, _joined, find, *args) or ()
        finally:
            self.context, self.single = outer, around

    # the call and the object that count

    def context_in(self, scope: Scope) -> CallingContext | None:
        """The context that counts in a function; None in all but that which is looked at now."""
        return self.context if self.context is not None and self.context.function is scope else None

    def single_in(self, scope: Scope) -> SingleObject | None:
        """The object that counts in a function; None in all but the methods of its class."""
        return self.single if self.single is not None and id(scope.of_class) in self.single.classes else None

    def within(self, context: CallingContext | None, find: Callable[[], T]) -> T:
        """What `find` gives in a context."""
        outer, self.context = self.context, context
        try:
            return find()
        finally:
            self.context = outer

    def of_object(self, single: SingleObject | None, find: Callable[[], T]) -> T:
        """What `find` gives of one object; of all objects of its class where there is none."""
        outer, self.single = self.single, single
        try:
            return find()
        finally:
            self.single = outer

    def entered_by(self, function: Scope, call: ast.Call, at: At) -> CallingContext | None:
        """The context of a call of a function; None where all calls of it are taken together."""
        return self.contexts.entered(function, id(call), self.context_in(at.scope))

    def maker(self, made: str) -> tuple[RawCall, Scope, CallingContext | None] | None:
        """The call that made a loader or a sampler, its function, and the call by which that is looked at."""
        place = without_context(made)
        call, scope = self.code.made.get(place, (None, None))
        if call is None or scope is None:
            return None
        contexts = self.contexts.of(scope)
        return call, scope, next((one for one in contexts if f"{place}{one.suffix}" == made), None)

    # words

    def text(self, node: ast.AST | None, scope: Scope) -> str:
        """An expression as it is written, on one line and shortened."""
        return segment(self.code.lines[scope.file], node)

    def where(self, node: ast.expr, scope: Scope) -> str:
        """`file:line:column` of an expression, with the context where there is one."""
        context = self.context_in(scope)
        return f"{self.code.place(node, scope)}{context.suffix if context is not None else ''}"


def _question(key: tuple[int, str], context: CallingContext | None, single: SingleObject | None) -> Hashable:
    """What is asked in a context and of an object, as answers are kept."""
    return key, id(context), id(single)


def _joined(find: Callable[[Unpack[Ts]], Iterable[Origin]], *args: Unpack[Ts]) -> Origins:
    found = find(*args)
    return found if type(found) is tuple and len(found) < 2 else joined(found)

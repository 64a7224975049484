"""What an expression can be, found when it is asked for: follows names, parameters, attributes, and functions across modules."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from typing import TypeVar

from ddpdoctor.evidence.code_values import Kind, Link, Origin
from ddpdoctor.source.dataflow.answers import Answers
from ddpdoctor.source.dataflow.assigned_values import given_by
from ddpdoctor.source.dataflow.call_meanings import Meaning, meaning
from ddpdoctor.source.dataflow.chosen_values import Alternative, by_branches, chosen
from ddpdoctor.source.dataflow.conditions import given_to_some
from ddpdoctor.source.dataflow.decided_branches import alive, reached
from ddpdoctor.source.dataflow.expressions import evaluate
from ddpdoctor.source.dataflow.listed_objects import ListedObjects
from ddpdoctor.source.dataflow.literals import bindings
from ddpdoctor.source.dataflow.origins import (
    MOST_STEPS,
    At,
    Origins,
    constant,
    joined,
    note_of,
    or_unknown,
    with_link,
    without_context,
)
from ddpdoctor.source.dataflow.parameters import parameter_of, rest_of
from ddpdoctor.source.dataflow.reaching_definitions import END, only_definition, reaching
from ddpdoctor.source.dataflow.shown_parameters import shows_what_it_gets
from ddpdoctor.source.dataflow.single_objects import SingleObject, SingleObjects
from ddpdoctor.source.dataflow.substitution import Substitutions
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names import torch_names as names
from ddpdoctor.source.program.calling_contexts import CallingContext, Contexts
from ddpdoctor.source.program.calls_in_programs import MOST_SITES, CallsInPrograms
from ddpdoctor.source.program.index import Index, Site
from ddpdoctor.source.program.project import Project
from ddpdoctor.source.syntax.code_text import segment
from ddpdoctor.source.syntax.scopes import Definition, RawCall, Scope

DEEPEST = 400  # questions within each other; where some are cut off, which was asked first decides what is known
FRAMES = 40  # of Python's stack for each of them, at most
T = TypeVar("T")


@dataclass(eq=False)
class Values:
    """The evaluator. An answer is a tuple of alternatives, empty where nothing is known."""

    project: Project
    """The files of the run and the names that they import."""
    index: Index
    """Who calls and sets what, over all files."""
    made: dict[str, tuple[RawCall, Scope]] = field(default_factory=dict)
    """By place as in `Origin.made`, the calls that make loaders, samplers and trainers, with their functions."""
    near: dict[str, frozenset[str]] = field(default_factory=dict)
    """The files of all programs that a file belongs to: attributes of other programs' objects have the same names."""
    programs: tuple[frozenset[str], ...] = ()
    """The files of each program."""
    answers: Answers[Origins] = field(default_factory=Answers)
    """What expressions, parameters, attributes and functions can be."""
    meanings: dict[tuple[int, int, int], object] = field(default_factory=dict)
    """What calls are for, once that is known: by the call, the context and the object."""
    wrapped: frozenset[int] = frozenset()
    """The calls of unknown functions and classes that make the models which DDP wraps, by the identity of their nodes."""
    drawn_from: frozenset[int] = frozenset()
    """The calls of unknown classes that make map-style data sets, by the identity of their nodes."""
    substitutions: Substitutions = field(default_factory=Substitutions)
    """Expressions with literals, or elements of a list, in place of names."""
    methods: dict[tuple[int, str], tuple[bool, list[tuple[Scope, RawCall]]]] = field(default_factory=dict)
    """By the files of some programs and a name: whether one class there has this method, and the first calls of it."""
    holding_none: dict[tuple[int, str], bool] = field(default_factory=dict)
    """By function and name, whether one of the assignments to the name gives None."""
    passing: dict[int, frozenset[str]] = field(default_factory=dict)
    """By function, the names in it that its results can depend on."""
    context: CallingContext | None = None
    """The call by which the function is looked at that is evaluated now; None where all of its callers count."""
    single: SingleObject | None = None
    """The object whose attributes and methods are evaluated now; None where all objects of the class count."""
    _showing: dict[int, bool] = field(default_factory=dict)
    _bound: dict[int, Counter[str]] = field(default_factory=dict)
    _functions: dict[str, dict[str, Scope]] = field(default_factory=dict)
    _having: dict[str, dict[int, Scope]] = field(default_factory=dict)
    _outside: dict[tuple[int, str], list[tuple[Scope, Definition, str]]] = field(default_factory=dict)
    _lines: dict[str, list[str]] = field(default_factory=dict)
    """The lines of each file of which an expression was shown."""
    _depth: int = 0

    @cached_property
    def contexts(self) -> Contexts:
        """The functions that are looked at call by call."""
        return Contexts(self.calls_of)

    @cached_property
    def objects(self) -> SingleObjects:
        """The objects of the program's classes that are looked at one by one."""
        return SingleObjects(self)

    @cached_property
    def lists(self) -> ListedObjects:
        """What the lists of the program hold."""
        return ListedObjects(self)

    def release(self) -> None:
        """Forget all: what is kept here refers to this object, so that only the collector would free the trees."""
        self.__dict__.clear()

    def objects_in(self, node: ast.expr, at: At) -> Origins:
        """The objects of the program's classes in a list that a loop goes over."""

        def found() -> Iterable[Origin]:
            return (each.object or Origin(kind=Kind.UNKNOWN, text="item") for each in self.lists.of(node, at))

        return self.once((id(node), "listed"), found, self.context_in(at.scope), self.single_in(at.scope))

    def of(self, node: ast.expr | None, at: At) -> Origins:
        """Every alternative of an expression at a place."""
        if node is None or self._depth > DEEPEST:
            return ()
        if type(node) is ast.Constant:
            return constant(node.value)
        outer, around = self.context, self.single
        inner = None if outer is None else self.context_in(at.scope)
        single = None if around is None else self.single_in(at.scope)
        key = (id(node), id(at.scope) if at.order == END else at.order, id(inner), id(single))
        if (found := self.answers.whole.get(key)) is not None:
            return found
        if type(node) is ast.Name and inner is None and key not in self.answers.partial:
            given = self._given_by_one(node.id, at, single)
            if given is not None:
                return given
        self._depth += 1
        self.context, self.single = inner, single
        try:
            return self.answers.ask(key, lambda: joined(evaluate(self, node, at))) or ()
        finally:
            self._depth -= 1
            self.context, self.single = outer, around

    def _given_by_one(self, name: str, at: At, single: SingleObject | None) -> Origins | None:
        """What the only definition of a variable gives, where that is known already: so it is for most names in functions."""
        if at.scope.parent is None:  # other functions may assign to a variable of a module
            return None
        only = only_definition(at.scope.definitions.get(name), at.order, at.block)
        return self.answers.whole.get(_question((id(only), "given"), None, single)) if only is not None else None

    def context_in(self, scope: Scope) -> CallingContext | None:
        """The context that counts in a function; None in all but that which is looked at now."""
        return self.context if self.context is not None and self.context.function is scope else None

    def single_in(self, scope: Scope) -> SingleObject | None:
        """The object that counts in a function; None in all but the methods of its class."""
        return self.single if self.single is not None and id(scope.of_class) in self.single.classes else None

    def bound_in(self, function: Scope) -> Counter[str]:
        """How often a function binds each name, other than as a parameter."""
        if id(function) not in self._bound:
            self._bound[id(function)] = bindings(function.node)
        return self._bound[id(function)]

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

    def shows(self, function: Scope) -> bool:
        """Whether a function of the program prints or logs what it is given."""
        if id(function) not in self._showing:
            self._showing[id(function)] = shows_what_it_gets(function, self.index.owners)
        return self._showing[id(function)]

    def meaning(self, node: ast.Call, at: At) -> Meaning:
        """What a call is for."""
        return meaning(self, node, at)

    def chosen(self, definitions: Sequence[tuple[Scope, Definition]]) -> Iterable[Origin]:
        """The test of the rank that decides which constant of several assignments a name holds."""
        return chosen(self, definitions)

    def once(
        self,
        key: tuple[int, str],
        find: Callable[[], Iterable[Origin]],
        context: CallingContext | None = None,
        single: SingleObject | None = None,
    ) -> Origins:
        """What `find` gives in a context and of an object, sought once; nothing where it is asked for while it is sought."""
        asked = _question(key, context, single)
        if (found := self.answers.whole.get(asked)) is not None:
            return found
        outer, around = self.context, self.single
        self.context, self.single = context, single
        try:
            return self.answers.ask(asked, lambda: joined(find())) or ()
        finally:
            self.context, self.single = outer, around

    # names

    def name(self, key: str, at: At) -> Origins:
        """What a name, or a dotted name that is assigned to in this function, can hold."""
        scope: Scope | None = at.scope
        order, block = at.order, at.block
        found: list[Origin] = []
        while scope is not None:
            definitions = scope.definitions.get(key)
            if definitions and (scope is at.scope or not scope.is_class):
                possible, always = reaching(reached(self, definitions, scope), order, block)
                from_functions = self.index.from_functions.get((scope.file, key), ()) if scope.parent is None else ()
                if always and len(possible) == 1 and not from_functions and not found:
                    return self.defined(key, possible[0], scope)
                unknown: list[ast.expr | None] = []
                in_order = max((one.order for one in possible if one.form == "sorted"), default=-1)
                for definition in possible:
                    given = self.defined(key, definition, scope)
                    if not given and definition.form == "assign" and not definition.index:
                        unknown.append(definition.value)
                    if in_order > definition.order:
                        given = tuple(one for one in given if one.kind is not Kind.UNORDERED)
                    found += given
                found += or_unknown(found, unknown)
                found += self.chosen([(scope, definition) for definition in possible])
                for function, definition in from_functions:
                    found += self.defined(key, definition, function)
                if always:
                    return joined(found)
            if key in scope.parameters:
                return joined([*found, *parameter_of(self, scope, key)])
            if (rest := rest_of(self, scope, key)) is not None:
                return joined([*found, *rest])
            if key in scope.imports:
                return joined([*found, *self._imported(key, scope)])
            if scope is at.scope and key not in scope.globals and scope.parent is not None and _binds(definitions):
                break
            scope, order = scope.parent, END
            block = scope.root if scope is not None else block
        if not found and scope is None:
            return self._imported(key, at.scope)
        return joined(found)

    def uncalled(self, function: Scope, name: str) -> Origin:
        """A function that is not called; noted where it would answer with a test of the rank."""
        tests = (one for one in self.returned(function) if one.kind is Kind.RANK and one.note in {"first", "others"})
        note = "tests the rank" if next(tests, None) is not None else ""
        return Origin(kind=Kind.FUNCTION, text=name, made=function.id, note=note)

    def function_named(self, name: str) -> Scope | None:
        """The function of this id, where the id is of one function only."""
        file = name.partition("::")[0]
        if file not in self._functions:
            source = self.project.sources.get(file)
            self._functions[file] = {scope.id: scope for scope in source.scopes} if source is not None else {}
        return self._functions[file].get(name)

    def _imported(self, key: str, scope: Scope) -> Origins:
        meant = self.project.resolve(scope, key)
        if isinstance(meant, tuple):
            module, name = meant
            if module is scope:
                return ()
            return self.name(name, At(module, END, module.root))
        if isinstance(meant, Scope) and not meant.is_class:
            return (self.uncalled(meant, meant.name),)
        if isinstance(meant, str) and meant.startswith(names.DIST_OF_OTHERS) and note_of(key) == "first":
            return (Origin(kind=Kind.FUNCTION, text=key, note="tests the rank"),)  # `is_main_process` of mmengine
        return ()

    def defined(self, key: str, definition: Definition, scope: Scope) -> Origins:
        """What one assignment gives a name; the same wherever the name is used."""
        context = None if self.context is None else self.context_in(scope)
        single = None if self.single is None else self.single_in(scope)
        return self.once((id(definition), "given"), lambda: given_by(self, key, definition, scope), context, single)

    # functions

    def returned(
        self, function: Scope, context: CallingContext | None = None, single: SingleObject | None = None
    ) -> Origins:
        """What a function of the program gives back, by one call of it or of one object where these are given."""
        return self.once((id(function), "return"), lambda: self._returned(function), context, single)

    def maker(self, made: str) -> tuple[RawCall, Scope, CallingContext | None] | None:
        """The call that made a loader or a sampler, its function, and the call by which that is looked at."""
        place = without_context(made)
        call, scope = self.made.get(place, (None, None))
        if call is None or scope is None:
            return None
        contexts = self.contexts.of(scope)
        return call, scope, next((one for one in contexts if f"{place}{one.suffix}" == made), None)

    def entered_by(self, function: Scope, call: ast.Call, at: At) -> CallingContext | None:
        """The context of a call of a function; None where all calls of it are taken together."""
        return self.contexts.entered(function, id(call), self.context_in(at.scope))

    def _returned(self, function: Scope) -> Origins:
        found = tuple(
            origin
            for value, order, block in alive(self, function)
            for origin in self._given_back(value, At(function, order + 1, block))
        )
        returns = [Alternative(value, block, function) for value, _, block in alive(self, function)]
        found += (*by_branches(self, returns), *given_to_some(self, returns))
        if not found and function.name in rank_names.RANK_CALLS:
            kind = rank_names.RANK_CALLS[function.name]
            return (Origin(kind=kind, text=f"{function.name}()", note=note_of(function.name)),)
        return found

    def _given_back(self, value: ast.expr, at: At) -> Iterable[Origin]:
        """What a `return` gives; that it compares a clock is one more step of its chain."""
        for origin in self.of(value, at):
            if origin.note == "clock" and isinstance(value, ast.Compare) and len(origin.why) <= MOST_STEPS:
                file, line = self.project.sources[at.scope.file].place(value.lineno)
                link = Link(text=f"{at.scope.name}() returns {self.text(value, at.scope)}", file=file, line=line)
                yield from with_link([origin], link)
            else:
                yield origin

    def assigned_outside(self, cls: Scope, name: str) -> list[tuple[Scope, Definition, str]]:
        """The first assignments to an attribute of this name of something else than `self`, in the programs of a class."""
        near = self.files_near(cls.file)
        if (id(near), name) not in self._outside:
            given = (each for each in self._given_from_outside.get(name, ()) if each[0].file in near)
            self._outside[id(near), name] = list(islice(given, MOST_SITES))
        return self._outside[id(near), name]

    @cached_property
    def _given_from_outside(self) -> dict[str, list[tuple[Scope, Definition, str]]]:
        """By name of an attribute, the assignments to it of something else than `self`."""
        found: dict[str, list[tuple[Scope, Definition, str]]] = {}
        for (_, attribute), given in self.index.fields.items():
            found.setdefault(attribute, []).extend(given)
        return found

    def with_attribute(self, name: str) -> Iterable[Scope]:
        """One scope of each class whose objects have an attribute of this name."""
        if not self._having:
            for (number, attribute), given in self.index.attributes.items():
                self._having.setdefault(attribute, {})[number] = given[0][0]
        return self._having.get(name, {}).values()

    def files_near(self, file: str) -> frozenset[str]:
        """The files of all programs that a file belongs to; the same object each time."""
        return self.near.setdefault(file, frozenset({file}))

    def calls_of(self, function: Scope) -> tuple[Site, ...]:
        """The calls of a function by its name, in the programs that its file belongs to."""
        return self._calls.of(function)

    @cached_property
    def _calls(self) -> CallsInPrograms:
        return CallsInPrograms(self.index, self.near, self.programs)

    # words

    def text(self, node: ast.AST | None, scope: Scope) -> str:
        """An expression as it is written, on one line and shortened."""
        lines = self._lines.get(scope.file)
        if lines is None:
            lines = self._lines[scope.file] = self.project.sources[scope.file].text.split("\n")
        return segment(lines, node)

    def where(self, node: ast.expr, scope: Scope) -> str:
        """`file:line:column` of an expression, with the context where there is one."""
        file, line = self.project.sources[scope.file].place(node.lineno)
        context = self.context_in(scope)
        return f"{file}:{line}:{node.col_offset + 1}{context.suffix if context is not None else ''}"


def _question(key: tuple[int, str], context: CallingContext | None, single: SingleObject | None) -> Hashable:
    """What is asked in a context and of an object, as answers are kept."""
    return *key, id(context), id(single)


def _binds(definitions: Iterable[Definition] | None) -> bool:
    """Whether a function makes a name its own: `scaler.update()` and `seen["x"] = 1` change what stands around it."""
    return any(one.form not in {"change", "sorted", "shared"} for one in definitions or ())

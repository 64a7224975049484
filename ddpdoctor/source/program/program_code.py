"""The code of a run: who calls a function, who sets an attribute, and what is written at a place."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice

from ddpdoctor.source.program.calls_in_programs import MOST_SITES, CallsInPrograms
from ddpdoctor.source.program.index import Index, Site
from ddpdoctor.source.program.project import Project
from ddpdoctor.source.syntax.scopes import Definition, RawCall, Scope


class FileLines(dict[str, list[str]]):
    """The lines of the files of a run, each file split when it is first asked for."""

    def __init__(self, project: Project) -> None:
        self._project = project

    def __missing__(self, file: str) -> list[str]:
        self[file] = self._project.sources[file].text.split("\n")
        return self[file]


@dataclass(eq=False)
class ProgramCode:
    """The files of all programs, as they are written: nothing is evaluated here."""

    project: Project
    """The files of the run and the names that they import."""
    index: Index
    """Who calls and sets what, over all files."""
    near: dict[str, frozenset[str]] = field(default_factory=dict)
    """The files of all programs that a file belongs to: attributes of other programs' objects have the same names."""
    programs: tuple[frozenset[str], ...] = ()
    """The files of each program."""
    made: dict[str, tuple[RawCall, Scope]] = field(default_factory=dict)
    """By place as in `Origin.made`, the calls that make loaders, samplers and trainers, with their functions."""
    wrapped: frozenset[int] = frozenset()
    """The calls of unknown functions and classes that make the models which DDP wraps, by the identity of their nodes."""
    drawn_from: frozenset[int] = frozenset()
    """The calls of unknown classes that make map-style data sets, by the identity of their nodes."""
    _functions: dict[str, dict[str, Scope]] = field(default_factory=dict)
    _methods: dict[tuple[int, str], tuple[bool, list[tuple[Scope, RawCall]]]] = field(default_factory=dict)
    _having: dict[str, dict[int, Scope]] = field(default_factory=dict)
    _outside: dict[tuple[int, str], list[tuple[Scope, Definition, str]]] = field(default_factory=dict)
    lines: FileLines = field(init=False)
    """The lines of each file."""

    def __post_init__(self) -> None:
        """No file is split before an expression of it is shown."""
        self.lines = FileLines(self.project)

    def remember_makers(self, scopes: Iterable[Scope]) -> None:
        """Enter the calls in some functions that make loaders, samplers and trainers."""
        for scope in scopes:
            for call in scope.calls:
                if call.last.endswith(("Loader", "Sampler", "Trainer", "DDP", "DataParallel")):
                    self.made[self.place(call.node, scope)] = (call, scope)

    def files_near(self, file: str) -> frozenset[str]:
        """The files of all programs that a file belongs to; the same object each time."""
        return self.near.setdefault(file, frozenset({file}))

    def function_named(self, name: str) -> Scope | None:
        """The function of this id, where the id is of one function only."""
        file = name.partition("::")[0]
        if file not in self._functions:
            source = self.project.sources.get(file)
            self._functions[file] = {scope.id: scope for scope in source.scopes} if source is not None else {}
        return self._functions[file].get(name)

    def calls_of(self, function: Scope) -> tuple[Site, ...]:
        """The calls of a function by its name, in the programs that its file belongs to."""
        return self._calls.of(function)

    @cached_property
    def _calls(self) -> CallsInPrograms:
        return CallsInPrograms(self.index, self.near, self.programs)

    def calls_of_method(self, name: str, near: frozenset[str]) -> tuple[bool, list[tuple[Scope, RawCall]]]:
        """Whether one class of these files alone has a method of this name, and the first calls of it there."""
        key = (id(near), name)
        if key not in self._methods:
            owners = islice((owner for owner in self.index.owners.get(name, ()) if owner.file in near), 2)
            calls = islice((each for each in self.index.methods.get(name, ()) if each[0].file in near), MOST_SITES)
            self._methods[key] = (len([*owners]) == 1 and len(name) > 4, [*calls])
        return self._methods[key]

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

    def place(self, node: ast.expr, scope: Scope) -> str:
        """`file:line:column` of an expression."""
        file, line = self.project.sources[scope.file].place(node.lineno)
        return f"{file}:{line}:{node.col_offset + 1}"

"""Who calls whom in the training code, and which functions all ranks run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from ddpdoctor.analysis.training_code.program_files import ProgramFiles
from ddpdoctor.evidence.training_code import (
    Call,
    Cut,
    Function,
    Loop,
    Module,
    Program,
    TrainingCode,
)
from ddpdoctor.grouping import grouped

T = TypeVar("T")
_ASKED_AGAIN = frozenset({"forward", "training_step", "__getitem__", "__call__", "__iter__"})
"""Methods that run once for each batch, sample or epoch."""


@dataclass(frozen=True, slots=True)
class CallInFunction:
    """A call, and the function that it stands in."""

    function: Function
    """The function whose body has the call."""
    call: Call
    """The call itself."""


@dataclass(eq=False)
class CallGraph:
    """The facts, and the questions that rules ask about them."""

    code: TrainingCode
    """The facts of all modules and programs that were read."""
    _known: dict[Hashable, Any] = field(default_factory=dict)
    _purposes: dict[str, dict[str, list[Call]]] = field(default_factory=dict)
    """By function, its calls by their purpose."""

    def once(self, key: Hashable, find: Callable[[], T]) -> T:
        """What `find` gives, sought once for a key: the name of the question, and what it is about."""
        if key not in self._known:
            self._known[key] = find()
        found: T = self._known[key]
        return found

    @cached_property
    def functions(self) -> dict[str, Function]:
        """Every function by its id."""
        return {function.id: function for module in self.code.modules for function in module.functions}

    @cached_property
    def modules(self) -> dict[str, Module]:
        """Every module by its file."""
        return {module.file: module for module in self.code.modules}

    @cached_property
    def callers(self) -> dict[str, list[tuple[Function, Call]]]:
        """The calls of each function."""
        found = grouped(
            (call.target, (function, call))
            for function in self.functions.values()
            for call in function.calls
            if call.target
        )
        for function in self.functions.values():
            if function.overrides:  # `self.step()` of a base class may call the method of any class below it
                found.setdefault(function.id, []).extend(found.get(function.overrides, ()))
        return found

    def is_called_in_a_loop(self, function: Function) -> bool:
        """Whether a call of it is in a loop of its caller."""
        return any(site.loops for _, site in self.callers.get(function.id, ()))

    @cached_property
    def repeated(self) -> AbstractSet[str]:
        """The ids of the functions that run in each turn of a loop, or for each batch, sample or epoch."""
        pending = [each for each, calls in self.callers.items() if any(site.loops for _, site in calls)]
        pending += [each for each in self.functions if each.rpartition(".")[2] in _ASKED_AGAIN]
        found: set[str] = set()
        while pending:
            at = pending.pop()
            if at not in found and at in self.functions:
                found.add(at)
                pending += [call.target for call in self.functions[at].calls if call.target]
        return found

    @cached_property
    def divided(self) -> AbstractSet[str]:
        """The ids of the calls that draw an order of which a function takes the first part and the rest."""
        return {each for function in self.functions.values() for each in function.divided}

    @cached_property
    def _programs(self) -> dict[str, list[Program]]:
        return grouped((file, program) for program in self.code.programs for file in program.files)

    @cached_property
    def made(self) -> dict[str, tuple[Function, Call]]:
        """Every call by its id: what made an object."""
        found: dict[str, tuple[Function, Call]] = {}
        for function in self.functions.values():
            for call in function.calls:
                known = found.setdefault(call.id, (function, call))[1]  # of `model(x).sum().backward()` the innermost
                if call.does == "forward" and known.does in {"", "unwrap"}:  # `unwrap(model)(x)` makes no object before
                    found[call.id] = (function, call)
        return found

    @cached_property
    def _by_purpose(self) -> dict[str, list[tuple[Function, Call]]]:
        return grouped((call.does, (function, call)) for function in self.functions.values() for call in function.calls)

    @cached_property
    def _loops_over(self) -> dict[str, list[tuple[Function, Loop]]]:
        return grouped(
            (made, (function, loop))
            for function in self.functions.values()
            for loop in function.loops
            for made in loop.over.made
        )

    @cached_property
    def _cuts_of(self) -> dict[str, list[Cut]]:
        return grouped(
            (made, cut) for function in self.functions.values() for cut in function.cuts for made in cut.whole.made
        )

    @cached_property
    def _taken_by(self) -> dict[str, list[tuple[Function, Call]]]:
        return grouped(
            (made, (function, call))
            for function in self.functions.values()
            for call in function.calls
            for made in all_made(call)
        )

    # programs

    def programs(self, function: Function) -> list[Program]:
        """The programs that a function belongs to."""
        return self._programs.get(function.id.partition("::")[0], [])

    @cached_property
    def distinct_programs(self) -> tuple[Program, ...]:
        """One program for each set of files: modules that import each other in a ring are one."""
        found: dict[tuple[str, ...], Program] = {}
        for program in self.code.programs:
            found.setdefault(program.files, program)
        return tuple(found.values())

    @cached_property
    def files(self) -> ProgramFiles:
        """What stands in the files of each program."""
        return ProgramFiles(self.code, self.functions)

    def any_program(self, function: Function, words: Iterable[str]) -> bool:
        """Whether any program that the function belongs to calls, reads or imports one of `words`."""
        return not self.files.words(function).isdisjoint(words)

    def calls_near(self, function: Function, *does: str) -> Iterator[tuple[Function, Call]]:
        """Every call for one of these purposes in the programs that a function belongs to."""
        for purpose in does:
            yield from self.files.calls_near(function, purpose)

    def calls(self, *does: str) -> Iterator[tuple[Function, Call]]:
        """Every call for one of these purposes."""
        for purpose in does:
            yield from self._by_purpose.get(purpose, ())

    def calls_of(self, function: Function, *does: str) -> Sequence[Call]:
        """The calls of one function for these purposes, as they are written."""
        if function.id not in self._purposes:
            self._purposes[function.id] = grouped((call.does, call) for call in function.calls)
        found = [calls for purpose in does if (calls := self._purposes[function.id].get(purpose))]
        if len(found) < 2:
            return found[0] if found else ()
        return sorted(itertools.chain(*found), key=attrgetter("order"))

    def loops_over(self, made: str) -> list[tuple[Function, Loop]]:
        """The loops over an object that a call made: the call's id."""
        return self._loops_over.get(made, [])

    def taken_by(self, made: str) -> list[tuple[Function, Call]]:
        """The calls that take an object that a call made, as their receiver or an argument."""
        return self._taken_by.get(made, [])

    def cuts_of(self, made: str) -> list[Cut]:
        """The parts that ranks take of a list that a call made."""
        return self._cuts_of.get(made, [])

    @cached_property
    def defined_in(self) -> dict[str, list[Function]]:
        """By function, the functions that are defined in it."""
        return grouped((function.id.rpartition(".")[0], function) for function in self.functions.values())

    def methods_near(self, function: Function, name: str) -> list[str]:
        """The ids of the methods of this name (`.generate`) in the programs that a function belongs to."""
        files = self.files.near(function)
        return [each for each in self._methods.get(name, ()) if each.partition("::")[0] in files]

    @cached_property
    def _methods(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in self.functions:
            owner, _, name = each.rpartition("::")[2].rpartition(".")
            if owner:
                found.setdefault(f".{name}", []).append(each)
        return found


def all_made(call: Call) -> AbstractSet[str]:
    """The ids of the calls that made what a call takes: its receiver first, then its arguments in their order."""
    found: dict[str, None] = {}
    values = [argument.value for argument in call.arguments]
    for value in values if call.receiver is None else [call.receiver, *values]:
        for origin in value.origins:
            if origin.made:
                found[origin.made] = None
    return found.keys()


def derive(code: TrainingCode) -> CallGraph:
    """The call graph over the facts."""
    return CallGraph(code)

"""Who calls whom in the training code, and which functions all ranks run."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any, TypeVar

from ddpdoctor.analysis.training_code.collective_calls import COLLECTIVE
from ddpdoctor.analysis.training_code.guards import may_ask_for_rank, rank_guard
from ddpdoctor.analysis.training_code.parent_process import before_the_ranks
from ddpdoctor.analysis.training_code.program_files import ProgramFiles
from ddpdoctor.evidence.training_code import (
    Call,
    Context,
    Cut,
    Function,
    Guard,
    Loop,
    Module,
    Program,
    TrainingCode,
)
from ddpdoctor.grouping import grouped

T = TypeVar("T")


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
    _always: dict[str, bool | None] = field(default_factory=dict)

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

    def any_word(self, function: Function, test: Callable[[str], bool]) -> bool:
        """Whether any program that the function belongs to calls, reads or imports a name that passes `test`."""
        return any(map(test, self.files.words(function)))

    def files_near(self, function: Function) -> frozenset[str]:
        """The files of all programs that a function belongs to."""
        return self.files.near(function)

    def functions_near(self, function: Function) -> list[Function]:
        """The functions of all programs that a function belongs to."""
        return self.files.functions_near(function)

    def calls_near(self, function: Function, *does: str) -> Iterator[tuple[Function, Call]]:
        """Every call for one of these purposes in the programs that a function belongs to."""
        for purpose in does:
            yield from self.files.calls_near(function, purpose)

    def calls_in(self, program: Program, *does: str) -> Iterator[tuple[Function, Call]]:
        """The calls for these purposes in a program, file by file, as they are written."""
        return self.files.calls_in(program.files, *does)

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

    def on_all_ranks(self, function: Function) -> bool | None:
        """True where a chain of calls without a test of the rank leads here, False where all have one, None if unknown."""
        waiting, begun = [function], set[str]()
        while waiting:
            at = waiting[-1]
            if at.id in begun:
                begun.remove(at.id)
                self._always[at.id] = self._judged(at)
            elif at.id not in self._always:
                begun.add(at.id)
                self._always[at.id] = None  # for functions that call each other in a ring
                waiting += [each for each in reversed(self._asked_first(at)) if each.id not in self._always]
                continue
            waiting.pop()
        return self._always[function.id]

    def _asked_first(self, function: Function) -> list[Function]:
        """The functions whose answers that of a function depends on."""
        callers = self.callers.get(function.id, [])
        around = self._defines_handler(function) or self._makes_the_object(function)
        return [*(caller for caller, _ in callers), *((around,) if around is not None and not callers else ())]

    def _judged(self, function: Function) -> bool | None:
        """The answer for a function, from those for the functions that it depends on."""
        if any(guard.by_rank for guard in function.guards):
            return False
        if function.entry or function.hook:
            return True if not _is_cell(function) or _makes_the_job(function) else None
        callers = self.callers.get(function.id, [])
        answers = [self._under(call.guards, caller) for caller, call in callers]
        if True in answers:
            return True
        if answers and None not in answers:
            return False
        around = self._defines_handler(function)
        if not callers and around is not None:
            return self._under(function.within, around)
        if not callers and (maker := self._makes_the_object(function)) is not None:
            return self._always.get(maker.id)
        return True if _makes_the_job(function) else None

    def _under(self, guards: Iterable[Guard], function: Function) -> bool | None:
        """Whether all ranks reach a line of a function under these tests."""
        guards = tuple(guards)
        if any(guard.by_rank for guard in guards):
            return False
        return None if any(may_ask_for_rank(guard) for guard in guards) else self._always.get(function.id)

    def _defines_handler(self, function: Function) -> Function | None:
        """The function in which a handler of Ignite's is defined; None where it is no such handler."""
        handles = any(name.endswith(".on") for name in function.decorators)
        return self.functions.get(function.id.rpartition(".")[0]) if handles else None

    def _makes_the_object(self, function: Function) -> Function | None:
        """The `__init__` of the class of a property, which is read and not called; None of other functions."""
        read = any(name.endswith("property") for name in function.decorators)
        return self.functions.get(f"{function.id.rpartition('.')[0]}.__init__") if read else None

    def guarded_with_caller(self, function: Function, call: Call) -> tuple[Function, Call, Guard] | None:
        """The test of the rank around a call, its function, or the only call of the function that it stands in, and where."""
        guard = rank_guard(call.guards) or next((one for one in function.guards if one.by_rank), None)
        if guard is not None:
            return function, call, guard
        callers = self.callers.get(function.id, ())
        if len(callers) != 1 or (guard := rank_guard(callers[0][1].guards)) is None:
            return None
        return *callers[0], guard

    def is_hook_of_lightning(self, function: Function) -> bool:
        """Whether this is a method of a LightningDataModule that Lightning calls in every process."""
        name = function.id.rpartition("::")[2]
        owner = name.rpartition(".")[0]
        module = self.modules.get(function.id.partition("::")[0])
        hooks = {"setup", "train_dataloader", "val_dataloader", "test_dataloader"}
        return function.place.function in hooks and module is not None and owner in module.data_modules

    def line_on_all_ranks(self, function: Function, call: Call) -> bool:
        """Whether all ranks make a call for certain, as far as tests of the rank go."""
        asked = any(guard.by_rank or may_ask_for_rank(guard) for guard in call.guards)
        alone = before_the_ranks(self, function, call.order)
        return not asked and not alone and self.on_all_ranks(function) is True

    def all_enter(self, context: Context) -> bool:
        """Whether all ranks run a `with` block of the program alike: what is entered asks for no rank and meets no other one."""
        ids = (context.target, f"{context.target}.__enter__", f"{context.target}.__exit__") if context.target else ()
        entered = [self.functions[each] for each in ids if each in self.functions]
        calls = [call for function in entered for call in function.calls]
        guards = [*(call.guards for call in calls), *(leave.guards for function in entered for leave in function.exits)]
        asks = any(one.by_rank for each in guards for one in each)
        return bool(entered) and not asks and not any(call.does in COLLECTIVE for call in calls)

    def starts_the_job(self, function: Function, depth: int = 2) -> bool:
        """Whether a function makes the process group, by itself or in one that it calls."""
        called = [self.functions[call.target] for call in function.calls if call.target in self.functions]
        return any(call.does in _JOINS_THE_JOB for call in function.calls) or (
            depth > 0 and any(self.starts_the_job(each, depth - 1) for each in called)
        )

    @cached_property
    def defined_in(self) -> dict[str, list[Function]]:
        """By function, the functions that are defined in it."""
        return grouped((function.id.rpartition(".")[0], function) for function in self.functions.values())

    def methods_near(self, function: Function, name: str) -> list[str]:
        """The ids of the methods of this name (`.generate`) in the programs that a function belongs to."""
        files = self.files_near(function)
        return [each for each in self._methods.get(name, ()) if each.partition("::")[0] in files]

    @cached_property
    def _methods(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for each in self.functions:
            owner, _, name = each.rpartition("::")[2].rpartition(".")
            if owner:
                found.setdefault(f".{name}", []).append(each)
        return found


_JOINS_THE_JOB = frozenset({"init", "accelerator", "deepspeed"})
_MAKES_THE_JOB = _JOINS_THE_JOB | {"fabric"}  # which starts the other ranks itself, behind the lines before it


def _makes_the_job(function: Function) -> bool:
    """Whether a function makes the process group or a wrapper under no test of the rank: all ranks must call it then."""
    return any(
        (call.does in _MAKES_THE_JOB or call.does.startswith("wrap-"))
        and not any(guard.by_rank or guard.form == "after" for guard in call.guards)
        for call in function.calls
    )


def _is_cell(function: Function) -> bool:
    """Whether it is the code of a notebook's cells, which one process runs: it starts the ranks."""
    return function.place.function == "<module>" and function.place.file.partition(":")[0].endswith(".ipynb")


def all_made(call: Call) -> AbstractSet[str]:
    """The ids of the calls that made what a call takes: its receiver first, then its arguments in their order."""
    found = dict.fromkeys(call.receiver.made if call.receiver is not None else ())
    for argument in call.arguments:
        for origin in argument.value.origins:
            if origin.made:
                found[origin.made] = None
    return found.keys()


def derive(code: TrainingCode) -> CallGraph:
    """The call graph over the facts."""
    return CallGraph(code)

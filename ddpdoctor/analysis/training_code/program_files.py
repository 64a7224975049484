"""Which files belong to one program, and the functions, calls and words that stand in them: looked up, not searched."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

from ddpdoctor.evidence.training_code import Call, Function, Program, TrainingCode
from ddpdoctor.grouping import grouped

Held = tuple[int, Function, Call]
"""The number of a call among all calls, its function, and the call."""


@dataclass(eq=False)
class ProgramFiles:
    """What stands in the files of a program. All lists have the order of the facts, whichever files are asked for."""

    code: TrainingCode
    """The facts."""
    functions: dict[str, Function]
    """Every function by its id."""
    _calls: dict[tuple[int, str], list[tuple[Function, Call]]] = field(default_factory=dict)
    _functions: dict[int, list[Function]] = field(default_factory=dict)
    _words: dict[int, frozenset[str]] = field(default_factory=dict)

    def near(self, function: Function) -> frozenset[str]:
        """The files of all programs that a function belongs to; the same object for the same files."""
        return self._together.get(_file(function), frozenset())

    def words(self, function: Function) -> frozenset[str]:
        """Every name that the programs of a function call, read or import."""
        files = self.near(function)
        if id(files) not in self._words:
            self._words[id(files)] = frozenset().union(*(self._words_in.get(file, ()) for file in files))
        return self._words[id(files)]

    def functions_near(self, function: Function) -> list[Function]:
        """The functions of the programs that a function belongs to."""
        files = self.near(function)
        if id(files) not in self._functions:
            found = [each for file in files for each in self._by_file.get(file, ())]
            self._functions[id(files)] = [each for _, each in sorted(found, key=itemgetter(0))]
        return self._functions[id(files)]

    def functions_below(self, owner: str) -> list[Function]:
        """The functions within a class or a function of this id, `file::Class`, at any depth."""
        beside = self._by_file.get(owner.partition("::")[0], ())
        return [each for _, each in beside if each.id.startswith(f"{owner}.")]

    def function_around(self, made: str) -> str:
        """The id of the function that a place stands in, `file:line:column`, as far as functions of its file are known."""
        file, line, _ = made.rsplit(":", 2)
        beside = [each for _, each in self._by_file.get(file, ())]
        before = [each for each in beside if each.place.line <= int(line)]
        return max(before, key=lambda each: each.place.line).id if before else ""

    def calls_near(self, function: Function, does: str) -> list[tuple[Function, Call]]:
        """Every call for a purpose in the programs that a function belongs to."""
        files = self.near(function)
        key = (id(files), does)
        if key not in self._calls:
            table = self.calls.get(does, {})
            found = [each for file in files if file in table for each in table[file]]
            self._calls[key] = [(owner, call) for _, owner, call in sorted(found, key=itemgetter(0))]
        return self._calls[key]

    def calls_in(self, files: Iterable[str], *does: str) -> Iterator[tuple[Function, Call]]:
        """The calls for these purposes, file by file, as they are written."""
        tables = [table for purpose in does if (table := self.calls.get(purpose))]
        for file in files if tables else ():
            found = [each for table in tables for each in table.get(file, ())]
            yield from ((function, call) for _, function, call in sorted(found, key=itemgetter(0)))

    @cached_property
    def calls(self) -> dict[str, dict[str, list[Held]]]:
        """The calls by their purpose and file."""
        found: defaultdict[str, defaultdict[str, list[Held]]] = defaultdict(lambda: defaultdict(list))
        number = itertools.count()
        for function in self.functions.values():
            file = _file(function)
            for call in function.calls:
                found[call.does][file].append((next(number), function, call))
        return {purpose: dict(by_file) for purpose, by_file in found.items()}

    @cached_property
    def _words_in(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for module in self.code.modules:
            found.setdefault(module.file, set()).update(module.words, module.frameworks, module.reads)
        return found

    @cached_property
    def _together(self) -> dict[str, frozenset[str]]:
        return files_together(self.code.programs)

    @cached_property
    def _by_file(self) -> dict[str, list[tuple[int, Function]]]:
        return grouped((_file(function), (number, function)) for number, function in enumerate(self.functions.values()))


def _file(function: Function) -> str:
    return function.id.partition("::")[0]


def files_together(programs: Iterable[Program]) -> dict[str, frozenset[str]]:
    """For every file, the files of all programs that it belongs to."""
    programs = tuple(programs)
    files = sorted({file for program in programs for file in program.files})
    bits = {file: 1 << number for number, file in enumerate(files)}
    around = dict.fromkeys(files, 0)
    for program in programs:
        mine = 0
        for file in program.files:
            mine |= bits[file]
        for file in program.files:
            around[file] |= mine
    known: dict[int, frozenset[str]] = {}
    for mask in around.values():
        if mask not in known:
            known[mask] = frozenset(_of_bits(files, mask))
    return {file: known[mask] for file, mask in around.items()}


def _of_bits(files: Sequence[str], mask: int) -> Iterator[str]:
    while mask:
        last = mask & -mask
        yield files[last.bit_length() - 1]
        mask ^= last

"""The calls of each function in the programs that its file belongs to, found once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ddpdoctor.source.program.index import Index, Site
from ddpdoctor.source.syntax.scopes import Scope

MOST_SITES = 12


@dataclass(eq=False)
class CallsInPrograms:
    """Who calls each function by its name.

    Where there are too many calls, those in the smallest programs alone count: a program's tests call a function more
    often than it does itself.
    """

    index: Index
    """Has the calls of each function in all files."""
    near: Mapping[str, frozenset[str]]
    """By file, the files of all programs that it belongs to."""
    programs: Sequence[frozenset[str]]
    """The files of each program."""
    _found: dict[int, tuple[Site, ...]] = field(default_factory=dict)
    """By function, the calls of it."""
    _smallest: dict[str, frozenset[str]] = field(default_factory=dict)
    """By file, the files of its smallest programs."""

    def of(self, function: Scope) -> tuple[Site, ...]:
        """The calls of a function."""
        if id(function) not in self._found:
            self._found[id(function)] = tuple(self._find(function))
        return self._found[id(function)]

    def _find(self, function: Scope) -> list[Site]:
        found = self.index.sites_near(function, self.near.get(function.file, frozenset((function.file,))))
        if len(found) <= MOST_SITES:
            return found
        smallest = self._in_smallest(function.file)
        return [site for site in found if site.caller.file in smallest] if smallest else found

    def _in_smallest(self, file: str) -> frozenset[str]:
        """The files of the programs that a file belongs to, without programs that hold another one of these."""
        if file not in self._smallest:
            mine = {files for files in self.programs if file in files}
            least = [files for files in mine if not any(other < files for other in mine)]
            self._smallest[file] = frozenset[str]().union(*least)
        return self._smallest[file]

"""The modules of one run and the names that they import from each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

from ddpdoctor.source.names.torch_names import MOST_NAMES
from ddpdoctor.source.syntax.scopes import Scope

MOST_HOPS = 6  # re-exports that are followed: a package's __init__, its submodule's, and a few more
LEVELS_UP = 5  # folders above a file in which a top-level package is looked for


_ELSEWHERE = frozenset(
    {"torch", "numpy", "os", "sys", "torchvision", "random", "time", "argparse", "math", "json", "typing", "pathlib"}
)
"""Packages that are never a program's own, and imported by nearly all."""


@dataclass(slots=True, eq=False)
class Source:
    """One file that was read and walked."""

    file: str
    """Its path, as the run was given it or as imports lead to it."""
    scopes: list[Scope]
    """The module itself, then all functions and classes in it."""
    text: str
    """The text that was parsed."""
    folder: str = ""
    """The folder that relative paths of findings start at; empty for the current one."""
    places: tuple[tuple[str, int], ...] = ()
    """By line of the text, the file and line that people see; empty where these are the same."""

    def place(self, line: int) -> tuple[str, int]:
        """The file and line that people see for a line of the text: another one in notebooks."""
        if self.places and 0 < line <= len(self.places):
            return self.places[line - 1]
        return self.file, line


@dataclass(eq=False)
class Project:
    """All files of a run."""

    sources: dict[str, Source] = field(default_factory=dict)
    """By path, every file that was read so far."""
    load: Callable[[str], Source | None] = lambda _: None
    """Reads one more file where an import names it; None where there is none, or it cannot be parsed."""
    _folders: dict[str, frozenset[str]] = field(default_factory=dict)
    _modules: dict[tuple[str, str], str | None] = field(default_factory=dict)
    _bases: dict[int, list[Scope | str]] = field(default_factory=dict)

    @cached_property
    def given(self) -> dict[str, set[str]]:
        """What stands in each folder as far as the files' own names say it: for those that are on no disk."""
        found: dict[str, set[str]] = {}
        for file in self.sources:
            inner = file
            while inner:
                folder, name = os.path.split(inner)
                if name in found.setdefault(folder, set()) or not name:
                    break
                found[folder].add(name)
                inner = folder
        return found

    def module(self, name: str, asker: str) -> str | None:
        """The file of module `name` as `asker` imports it, relative names too; None where it is not the program's own."""
        if name.partition(".")[0] in _ELSEWHERE:
            return None
        folder = os.path.dirname(asker)  # noqa: PTH120
        key = (name, folder)
        if key not in self._modules:
            self._modules[key] = self._find(name, folder)
        return self._modules[key]

    def _find(self, name: str, folder: str) -> str | None:
        level = len(name) - len(name.lstrip("."))
        parts = [part for part in name[level:].split(".") if part]
        for _ in range(level - 1):
            folder = os.path.dirname(folder)  # noqa: PTH120
        if level:
            return self._file(folder, parts)
        if not parts:
            return None
        for _ in range(LEVELS_UP):
            if found := self._file(folder, parts):
                return found
            above = os.path.dirname(folder)  # noqa: PTH120
            if above == folder or not (self._has(folder, "__init__.py") or self._beside(folder)):
                return None
            folder = above
        return None

    def _beside(self, folder: str) -> bool:
        """Whether a package may stand above `folder`: it is not the top of a checkout."""
        return (
            not self._has(folder, ".git")
            and not self._has(folder, "pyproject.toml")
            and not self._has(folder, "setup.py")
        )

    def _file(self, folder: str, parts: list[str]) -> str | None:
        if not parts:
            return self._source(os.path.join(folder, "__init__.py"))  # noqa: PTH118
        base = os.path.join(folder, *parts[:-1])  # noqa: PTH118
        if len(parts) > 1 and not self._has(folder, parts[0]):
            return None
        if self._has(base, f"{parts[-1]}.py"):
            return self._source(os.path.join(base, f"{parts[-1]}.py"))  # noqa: PTH118
        if self._has(base, parts[-1]):
            return self._source(os.path.join(base, parts[-1], "__init__.py"))  # noqa: PTH118
        return None

    def _source(self, file: str) -> str | None:
        if file not in self.sources:
            source = self.load(file)
            if source is None:
                return None
            self.sources[file] = source
        return file

    def _has(self, folder: str, name: str) -> bool:
        if folder not in self._folders:
            try:
                listed = os.listdir(folder or ".")  # noqa: PTH208 - names are enough
            except OSError:
                listed = []
            found = frozenset((*listed, *self.given.get(folder, ())))
            self._folders[folder] = found
        return name in self._folders[folder]

    def release(self) -> None:
        """Free the trees now: scopes refer to each other, so that the collector would go over all of them."""
        for source in self.sources.values():
            for scope in source.scopes:
                for statement in scope.statements:
                    statement.block.ended.clear()  # the blocks in it refer to it
                for name in scope.__slots__:
                    delattr(scope, name)
        self.sources.clear()

    def imports(self, source: Source) -> Iterator[str]:
        """The files of the run that a file imports."""
        seen: set[str] = set()
        for scope in source.scopes:
            for name, full in (*scope.imports.items(), *(("", each) for each in scope.modules)):
                for each in full.split() if name == "*" else (full,):
                    for prefix in prefixes(each):
                        file = self.module(prefix, source.file)
                        if file is not None and file not in seen:
                            seen.add(file)
                            yield file

    def resolve(self, scope: Scope, name: str) -> Scope | tuple[Scope, str] | str:
        """What a dotted name means in a scope.

        A function or class of the program is its scope, a variable of one of its modules is (module, name), and anything
        else is the full dotted name, as `torch.distributed.all_reduce`.
        """
        known = scope.meanings.get(name)
        if known is None:
            known = scope.meanings[name] = self._resolve(scope, name, MOST_HOPS)
        return known

    def _resolve(self, scope: Scope, name: str, hops: int) -> Scope | tuple[Scope, str] | str:
        first, _, rest = name.partition(".")
        at: Scope | None = scope
        while at is not None:
            if not (at.is_class and at is not scope):
                if first in at.functions:
                    return at.functions[first] if not rest else name
                if first in at.classes:
                    return self._within(at.classes[first], rest) or name
                if first in at.imports:
                    return self._imported(at.imports[first], rest, at.file, hops)
                if first in at.definitions or first in at.parameters:
                    return (at, name) if at.parent is None and not rest else name
            if at.parent is None and "*" in at.imports and hops:
                for base in at.imports["*"].split():
                    file = self.module(base, at.file)
                    if file is not None and _has_name(self.sources[file], first):
                        return self._resolve(self.sources[file].scopes[0], name, hops - 1)
            at = at.parent
        return name

    def _imported(self, full: str, rest: str, asker: str, hops: int) -> Scope | tuple[Scope, str] | str:
        whole = f"{full}.{rest}" if rest else full
        if not hops or full.partition(".")[0] in _ELSEWHERE:
            return whole
        for prefix in prefixes(whole):
            file = self.module(prefix, asker)
            if file is None:
                continue
            left = whole[len(prefix) :].lstrip(".")
            if not left:
                return whole
            inner = self.sources[file].scopes[0]
            if _has_name(self.sources[file], left.partition(".")[0]) or "*" in inner.imports:
                return self._resolve(inner, left, hops - 1)
            return whole
        return whole

    def _within(self, scope: Scope, rest: str) -> Scope | None:
        for part in rest.split(".") if rest else ():
            found = scope.functions.get(part) or scope.classes.get(part)
            if found is None:
                return None
            scope = found
        return scope

    def method(self, cls: Scope, name: str, hops: int = MOST_HOPS) -> Scope | None:
        """The method of this name in a class or the nearest of its bases that the program defines."""
        if name in cls.functions:
            return cls.functions[name]
        for base in self.bases(cls):
            if isinstance(base, Scope) and hops and (found := self.method(base, name, hops - 1)) is not None:
                return found
        return None

    def bases(self, cls: Scope) -> list[Scope | str]:
        """The bases of a class: classes of the program, or full names of others."""
        if id(cls) not in self._bases:
            self._bases[id(cls)] = self._find_bases(cls)
        return self._bases[id(cls)]

    def _find_bases(self, cls: Scope) -> list[Scope | str]:
        from ddpdoctor.source.names.dotted_names import dotted

        found: list[Scope | str] = []
        for base in getattr(cls.node, "bases", ()):
            name = dotted(base)
            if name and cls.parent is not None:
                meant = self.resolve(cls.parent, name)
                found.append(meant if isinstance(meant, Scope | str) else name)
        return found

    def is_a(self, cls: Scope, *names: str, hops: int = MOST_HOPS) -> bool:
        """Whether a class is, through any of its bases, one whose name ends in one of `names`."""
        for base in self.bases(cls):
            if isinstance(base, str):
                if base.rpartition(".")[2] in names:
                    return True
            elif hops and (base.name in names or self.is_a(base, *names, hops=hops - 1)):
                return True
        return False


@lru_cache(MOST_NAMES)
def prefixes(name: str) -> tuple[str, ...]:
    """`a.b.c`, `a.b`, `a`; of `..a.b` also `..`."""
    dots = name[: len(name) - len(name.lstrip("."))]
    parts = name[len(dots) :].split(".")
    found = tuple(dots + ".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return (*found, dots) if dots else found


def _has_name(source: Source, name: str) -> bool:
    root = source.scopes[0]
    return name in root.functions or name in root.classes or name in root.imports or name in root.definitions

"""What a project says about `lint` in its pyproject.toml, in the table `[tool.ddpdoctor.lint]`."""

from __future__ import annotations

import difflib
import fnmatch
import itertools
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpdoctor.errors import UsageError
from ddpdoctor.source import pyproject
from ddpdoctor.source.notebooks import file_and_cell

MOST_DEEP = 5  # of `**/` in one pattern
_KEYS = ("select", "ignore", "exclude", "per-file-ignores", "baseline")


@dataclass(frozen=True, slots=True, kw_only=True)
class LintConfig:
    """The table of one pyproject.toml; patterns are relative to its folder."""

    folder: Path = Path()
    """The folder of the file."""
    select: tuple[str, ...] = ()
    """Only these codes or families; empty for all."""
    ignore: tuple[str, ...] = ()
    """Not these."""
    exclude: tuple[str, ...] = ()
    """Patterns of files and folders that are not read where a folder is linted."""
    per_file_ignores: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pattern to the codes that are ignored in files that match it."""
    baseline: Path | None = None
    """The baseline file; None where there is none."""

    def excluded(self, file: Path, named: Collection[Path] = ()) -> bool:
        """Whether a file, or a folder that it is in below those that are `named`, matches a pattern of `exclude`."""
        return any(_matches(self.folder, file, pattern, named) for pattern in self.exclude)

    def ignored(self, code: str, file: str) -> bool:
        """Whether findings of this code are ignored in a file."""
        return any(
            code.startswith(codes)
            for pattern, codes in self.per_file_ignores.items()
            if _matches(self.folder, Path(file_and_cell(file)[0]), pattern)
        )


def config_for(paths: Sequence[Path], on_stranger: Callable[[Path], None] = lambda _: None) -> LintConfig:
    """The table of the nearest pyproject.toml at or above the first path that has one; an empty one where none has.

    `on_stranger` is called with a file that is not used because it belongs to another user.

    Raises:
        UsageError: the file is no TOML, or the table has an unknown key or a value of another type.
    """
    for file, table in pyproject.tables_above(_absolute(paths[0]), on_stranger):
        if "lint" in table:
            return _config(file, pyproject.table_in(file, table, "lint"))
    return LintConfig()


def _config(file: Path, table: Mapping[str, Any]) -> LintConfig:
    place = f"{file}: [tool.ddpdoctor.lint]"
    for key in table:
        if key not in _KEYS:
            near = difflib.get_close_matches(key, _KEYS, n=1)
            raise UsageError(
                f"{place} has no key {key}",
                hint=f"did you mean {near[0]}?" if near else f"the keys are {', '.join(_KEYS)}",
            )
    ignores = table.get("per-file-ignores", {})
    if not isinstance(ignores, dict):
        raise UsageError(
            f"{place} per-file-ignores is not a table", hint='write per-file-ignores = {"tests/*" = ["DDP755"]}'
        )
    baseline = table.get("baseline")
    if baseline is not None and not isinstance(baseline, str):
        raise UsageError(
            f"{place} baseline is {baseline!r}, not a file name", hint='write baseline = "lint-baseline.json"'
        )
    return LintConfig(
        folder=file.parent,
        select=_texts(place, "select", table.get("select", [])),
        ignore=_texts(place, "ignore", table.get("ignore", [])),
        exclude=_texts(place, "exclude", table.get("exclude", [])),
        per_file_ignores={name: _texts(place, f'per-file-ignores."{name}"', codes) for name, codes in ignores.items()},
        baseline=file.parent / baseline if baseline is not None else None,
    )


def _texts(place: str, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{place} {key} is {value!r}, not a list of strings", hint=f'write {key} = ["..."]')
    return tuple(value)


def _matches(folder: Path, file: Path, pattern: str, named: Collection[Path] = ()) -> bool:
    """Whether a pattern matches the file or a folder above it, by its name or by its path from `folder`.

    Folders that are `named`, and those above them, do not count.
    """
    absolute = _absolute(file)
    inside = {_absolute(folder), *map(_absolute, named)}
    paths = [absolute, *itertools.takewhile(lambda each: each not in inside, absolute.parents)]
    if not named and not absolute.is_relative_to(_absolute(folder)):
        paths = [absolute]
    forms = _forms(pattern)
    return any(
        fnmatch.fnmatch(name, form) for path in paths for name in _names(path, folder, pattern) for form in forms
    )


def _names(path: Path, folder: Path, pattern: str) -> tuple[str, str]:
    """The names of a path that a pattern can mean: its own, and from the folder of the file or, as the pattern, from the root."""
    base = _absolute(folder)
    inner = path.is_relative_to(base) and not pattern.startswith("/")
    return path.name, (path.relative_to(base) if inner else path).as_posix()


def _forms(pattern: str) -> list[str]:
    """A pattern in the forms that `fnmatch` knows: `**/` stands for folders, or for none."""
    parts = pattern.removeprefix("./").rstrip("/").split("**/")
    if len(parts) > MOST_DEEP:
        return ["**/".join(parts)]
    choices = itertools.product(("**/", ""), repeat=len(parts) - 1)
    return ["".join(itertools.chain(*itertools.zip_longest(parts, choice, fillvalue=""))) for choice in choices]


def _absolute(path: Path) -> Path:
    """The path from the root, without `..`; links stay."""
    return Path(os.path.abspath(path))  # noqa: PTH100

"""What a project says about `lint` in its pyproject.toml, in the table `[tool.ddpdoctor.lint]`."""

from __future__ import annotations

import difflib
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ddpdoctor.errors import UsageError
from ddpdoctor.source import pyproject
from ddpdoctor.source.notebooks import file_and_cell

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

    def excluded(self, file: Path) -> bool:
        """Whether a file, or a folder that it is in, matches a pattern of `exclude`."""
        return any(_matches(self.folder, file, pattern) for pattern in self.exclude)

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
    for file, table in pyproject.tables_above(paths[0].absolute(), on_stranger):
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
        per_file_ignores={name: _texts(place, f"per-file-ignores.{name}", codes) for name, codes in ignores.items()},
        baseline=file.parent / baseline if baseline is not None else None,
    )


def _texts(place: str, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise UsageError(f"{place} {key} is {value!r}, not a list of strings", hint=f'write {key} = ["..."]')
    return tuple(value)


def _matches(folder: Path, file: Path, pattern: str) -> bool:
    """Whether a pattern matches the file or a folder above it, by its name or by its path from `folder`."""
    absolute = file.absolute()
    names = [absolute, *absolute.parents]
    for each in names[: names.index(folder)] if folder in names else [absolute]:
        path = each.relative_to(folder).as_posix() if folder in names else each.as_posix()
        if fnmatch.fnmatch(path, pattern.rstrip("/")) or fnmatch.fnmatch(each.name, pattern.rstrip("/")):
            return True
    return False

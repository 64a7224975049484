"""Reads pyproject.toml: only a file of the user's own, and only tables of the right shape."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ddpdoctor.errors import UsageError
from ddpdoctor.regular_file import MOST_SETTINGS_BYTES, read_regular

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE = "pyproject.toml"
TABLE = "tool.ddpdoctor"


def tables_above(start: Path, on_stranger: Callable[[Path], None]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The files at or above `start` that may speak for who runs ddpdoctor there, the nearest first, and the table of each.

    `on_stranger` is called with a file that holds the table, belongs to another user and is passed over.

    Raises:
        UsageError: a file is no TOML, though it names the table, or the table is none.
    """
    for folder in (start, *start.parents):
        file = folder / FILE
        if not file.is_file():
            continue
        if _is_ours(file, start):
            yield file, table_of(file)
        elif _names_us(file):
            on_stranger(file)


def _is_ours(file: Path, start: Path) -> bool:
    """Whether it belongs to this user, to root, or to the owner of the folder of `start`.

    In a directory that everybody can write to, as `/tmp`, a stranger's file would else decide what root is told.
    """
    try:
        folder = next(each for each in (start, *start.parents) if each.is_dir())
        return file.stat().st_uid in {os.geteuid(), 0, folder.stat().st_uid}
    except (OSError, StopIteration):
        return False


def _names_us(file: Path) -> bool:
    try:
        return f"[{TABLE}".encode() in read_regular(file, most=MOST_SETTINGS_BYTES)
    except OSError:
        return False


def table_of(file: Path) -> Mapping[str, Any]:
    """The table `[tool.ddpdoctor]` of a file; empty where it has none.

    Raises:
        UsageError: it is no TOML, though it names the table, or the table is none.
    """
    try:
        text = read_regular(file, most=MOST_SETTINGS_BYTES).decode(errors="replace")
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from None
    if f"[{TABLE}" not in text:
        return {}
    try:
        table = tomllib.loads(text)["tool"]["ddpdoctor"]
    except RecursionError:
        raise UsageError(f"{file} cannot be read: it is nested too deep") from None
    except (ValueError, KeyError, TypeError) as error:  # ValueError: no TOML, or a number of thousands of digits
        raise UsageError(f"{file} cannot be read: {error}") from None
    if not isinstance(table, Mapping):
        raise UsageError(f"{file}: [{TABLE}] is {type(table).__name__}, not a table")
    return table


def table_in(file: Path, table: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The table `[tool.ddpdoctor.NAME]`; empty where there is none.

    Raises:
        UsageError: what has this name is no table.
    """
    found = table.get(name, {})
    if not isinstance(found, Mapping):
        raise UsageError(
            f"{file}: {TABLE}.{name} is {type(found).__name__}, not a table", hint=f"write `[{TABLE}.{name}]`"
        )
    return found

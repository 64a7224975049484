"""`[tool.ddpdoctor]` in pyproject.toml: the values of options for a project.

[tool.ddpdoctor]
ignore = ["DDP209"]          # every command that has --ignore

[tool.ddpdoctor.watch]
stall-after = 120            # `watch` alone
"""

from __future__ import annotations

import difflib
import os
import pwd
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ddpdoctor.cli import output
from ddpdoctor.cli.command_line import variables_of
from ddpdoctor.cli.commands import COMMANDS
from ddpdoctor.errors import UsageError
from ddpdoctor.source.pyproject import TABLE, table_in, tables_above

READ_BY_COMMAND = {"lint": frozenset({"exclude", "per-file-ignores", "baseline"})}
"""Keys that are no options: the command reads them itself, with paths relative to the file (`workflows/lint_config.py`)."""

WRITES = ("output", "case", "metrics", "nodes-out", "save", "plot", "trace", "write-baseline", "fix")
FOR_PEOPLE = {"on-verdict": "runs a command", **dict.fromkeys(WRITES, "writes files")}
"""Options that no project file can set, and why: who runs ddpdoctor in a folder does not thereby trust that folder."""


class ClickParameter(Protocol):
    """What click knows of an option or argument; some versions of typer have a click of their own."""

    name: str | None
    """The parameter of the function."""
    opts: list[str]
    """Its names on the command line."""
    param_type_name: str
    """`option` or `argument`."""
    multiple: bool
    """Whether an option can be repeated."""
    default: object
    """Its value where nothing sets it."""

    def value_from_envvar(self, context: Any) -> object:  # noqa: ANN401 - click's context, from wherever this typer has click
        """The value of its variable, split where it takes several."""

    def process_value(self, context: Any, value: object) -> object:  # noqa: ANN401
        """The value as the command gets it; raises click's error where it does not take it."""


class ClickCommand(Protocol):
    """A command as click has it."""

    name: str | None
    """As on the command line."""
    params: list[ClickParameter]
    """Its options and arguments."""


class ClickGroup(Protocol):
    """A program of several commands as click has it."""

    commands: Mapping[str, ClickCommand]
    """By name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProjectFile:
    """The nearest pyproject.toml with a table of ours."""

    path: Path
    """The pyproject.toml itself."""
    table: Mapping[str, Any]
    """What `[tool.ddpdoctor]` holds."""


def find(directory: Path, on_stranger: Callable[[Path], None] = lambda _: None) -> ProjectFile | None:
    """The nearest file in or above `directory` that has `[tool.ddpdoctor]` and is no stranger's; None where none is.

    `on_stranger` is called with each nearer one that belongs to another user.

    Raises:
        UsageError: the nearest pyproject.toml is no TOML.
    """
    for path, table in tables_above(directory, on_stranger):
        return ProjectFile(path=path, table=table) if table else None
    return None


def defaults(group: ClickGroup) -> dict[str, Any]:
    """The values that the project's file sets, as click takes them: by command and parameter.

    Says on stderr which files of other users are not used.

    Raises:
        UsageError: the file names an option or a command that does not exist, or a value has the wrong type.
    """
    say_strangers(strangers_here())
    return values(group)


def values(group: ClickGroup) -> dict[str, Any]:
    """As `defaults`, and says nothing."""
    found = found_here()
    return {} if found is None else _by_command(found, group)


def found_here() -> ProjectFile | None:
    """What `find` has for the working directory; None where that was removed."""
    try:
        return find(Path.cwd())
    except OSError:
        return None


def strangers_here() -> tuple[Path, ...]:
    """The files of other users that `find` passes over for the working directory; none where that was removed."""
    try:
        return strangers_above(Path.cwd())
    except OSError:
        return ()


def strangers_above(directory: Path) -> tuple[Path, ...]:
    """The files of other users that `find` passes over."""
    strangers: list[Path] = []
    find(directory, strangers.append)
    return tuple(strangers)


def say_strangers(files: Iterable[Path]) -> None:
    """Say of each file on stderr that it belongs to another user and is not used, and what to do: once for all ranks."""
    for file in files if os.environ.get("RANK", "0") == "0" else ():
        output.say(f"{passed_over(file)}\nto use it, copy it to a file of your own, or run ddpdoctor as that user")


def passed_over(file: Path) -> str:
    """`PATH belongs to user NAME and is not used`."""
    return f"{file} belongs to user {_owner(file)} and is not used"


def _owner(file: Path) -> str:
    number = file.stat().st_uid
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def _by_command(found: ProjectFile, group: ClickGroup) -> dict[str, Any]:
    commands = {name.replace("_", "-") for name in COMMANDS}
    shared = {name: value for name, value in found.table.items() if not isinstance(value, Mapping)}
    complete = len(group.commands) == len(commands)  # else only the command that runs is there to be asked
    known = {option for command in group.commands.values() for option in _options(command)}
    if complete:
        _check(shared, known, f"[{TABLE}] in {found.path}")
    values: dict[str, Any] = {}
    for name, command in group.commands.items():
        options = _options(command)
        own = table_in(found.path, found.table, name)
        others = READ_BY_COMMAND.get(name, frozenset())
        _check(own, {*options, *others}, f"[{TABLE}.{name}] in {found.path}")
        given = {option: value for option, value in {**shared, **own}.items() if option in options}
        for option in FOR_PEOPLE.keys() & given.keys():
            raise UsageError(
                f"{found.path} sets `{option}` for `{name}`, which {FOR_PEOPLE[option]}: a project file cannot do that",
                hint=f"give `--{option}` on the command line, or set {variables_of(name, option)[0]}",
            )
        chosen = {option: value for option, value in given.items() if option not in others}
        values[name] = {
            str(options[option].name): _value(options[option], value, f"{found.path}: `{option}` of `{name}`")
            for option, value in chosen.items()
        }
    _check({name: None for name, value in found.table.items() if isinstance(value, Mapping)}, commands, str(found.path))
    return values


def _options(command: ClickCommand) -> dict[str, ClickParameter]:
    """By long name without dashes."""
    return {
        name.removeprefix("--"): parameter
        for parameter in command.params
        if parameter.param_type_name == "option"
        for name in parameter.opts
        if name.startswith("--")
    }


def _check(given: Mapping[str, Any], known: set[str], where: str) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"there are: {', '.join(sorted(known))}"
            raise UsageError(f"{where}: there is no `{name}`", hint=hint)


def _value(option: ClickParameter, value: Any, where: str) -> Any:  # noqa: ANN401 - any value of TOML
    values = value if isinstance(value, list) and option.multiple else [value]
    if not all(isinstance(each, str | int | float) for each in values):
        many = " or a list of them" if option.multiple else ""
        raise UsageError(f"{where} is {str(value)[:80]}", hint=f"write a text, a number, true or false{many}")
    if getattr(option, "is_flag", False) and not isinstance(value, bool):
        return str(value)  # click takes `1` for true, and fails at the number
    return values if option.multiple else value

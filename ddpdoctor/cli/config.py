"""`ddpdoctor config`: which value each option has without being given, and where it comes from."""

from __future__ import annotations

import difflib
import importlib
import json
import os
from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output, project_file
from ddpdoctor.cli.commands import COMMANDS
from ddpdoctor.cli.mistakes import in_plain_words
from ddpdoctor.cli.options import ListFormat
from ddpdoctor.errors import DdpdoctorError, UsageError
from ddpdoctor.quoting import quoted
from ddpdoctor.source.pyproject import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ddpdoctor.cli.project_file import ClickCommand, ClickGroup, ClickParameter

DEFAULT = "default"


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    app.command("config", short_help="Show the value of each option, and where it comes from.")(config)


def config(
    command: Annotated[
        Optional[str],  # noqa: UP045 - a default of None on Python 3.10
        typer.Argument(metavar="[COMMAND]", help="One command; without it, only what is set for any."),
    ] = None,
    format_: Annotated[ListFormat, typer.Option("--format", "-f", help="Format of the list.")] = ListFormat.TEXT,
) -> None:
    """Show the value of each option, and where it comes from: a variable, pyproject.toml, or the default.

    What stands on the command line comes first, then DDPDOCTOR_COMMAND_OPTION, DDPDOCTOR_OPTION, [tool.ddpdoctor.COMMAND] and
    [tool.ddpdoctor] in the nearest pyproject.toml. A value that its command refuses is shown with the reason; the exit code is
    then 2.
    """
    group = _all(COMMANDS)
    names = list(group.commands)
    if command is not None and command not in names:
        near = difflib.get_close_matches(command, names, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UsageError(f"there is no command {command}", hint=f"{hint}there are: {', '.join(names)}")
    from_file = project_file.values(group)
    rows = [row for name in names if command in {None, name} for row in _rows(group.commands[name], from_file)]
    if command is None:
        rows = [row for row in rows if row.source != DEFAULT]
    if format_ is ListFormat.JSON:
        output.show(json.dumps([asdict(row) for row in rows], indent=2) + "\n")
    else:
        _show(rows)
    if any(row.error for row in rows):
        raise typer.Exit(UsageError.exit_code)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """One option of one command; its fields are the keys of the JSON list."""

    command: str
    option: str
    value: object
    """Its value, as the variable or the file gives it."""
    source: str
    """The variable, the table of the file, or `default`."""
    error: str | None
    """Why the command refuses the value; None where it takes it."""


def _show(rows: list[_Row]) -> None:
    for file in project_file.strangers_here():
        output.show(f"{quoted(project_file.passed_over(file))}\n")
    if not rows:
        output.show("every option has its default: `ddpdoctor config COMMAND` lists them\n")
        return
    cells = [(row.command, row.option, _as_text(row.value)) for row in rows]
    widest = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row, line in zip(rows, cells, strict=True):
        padded = (f"{cell:<{width}}" for cell, width in zip(line, widest, strict=True))
        error = f"  error: {row.error}" if row.error else ""
        output.show("  ".join((*padded, row.source)) + f"{error}\n")


def _as_text(value: object) -> str:
    """As pyproject.toml has it; TOML knows no value that stands for none."""
    match value:
        case None:
            return "not set"
        case bool():
            return str(value).lower()
        case list():
            return ",".join(map(str, value))
        case _:
            return str(value)


def _all(commands: tuple[str, ...]) -> ClickGroup:
    app = typer.App("ddpdoctor")
    for name in commands:
        importlib.import_module(f"ddpdoctor.cli.{name}").register(app)
    group: ClickGroup = app.group()
    return group


def _rows(command: ClickCommand, from_file: Mapping[str, Mapping[str, object]]) -> Iterator[_Row]:
    """Of each option its value and source, in the order of the help."""
    assert command.name is not None
    in_file = from_file.get(command.name, {})
    for option in command.params:
        if option.param_type_name == "option" and option.name is not None:
            value, source, error = _value(command, command.name, option, in_file)
            shown = value.value if isinstance(value, Enum) else value
            yield _Row(
                command=command.name, option=typer.long_name(option.opts), value=shown, source=source, error=error
            )


def _value(
    command: ClickCommand, name: str, option: ClickParameter, in_file: Mapping[str, object]
) -> tuple[object, str, str | None]:
    """The value of an option that is not on the command line, its source, and why the command refuses it."""
    long_name = typer.long_name(option.opts)
    variable = next((each for each in typer.variables_of(name, long_name) if os.environ.get(each)), None)
    if variable is not None:
        return os.environ[variable], variable, _error(command, option, None)
    found = project_file.found_here()
    if option.name is None or option.name not in in_file or found is None:
        return option.default, DEFAULT, None
    value = in_file[option.name]
    own = long_name.removeprefix("--") in found.table.get(name, {})
    table = f"{TABLE}.{name}" if own else TABLE
    return value, f"[{table}] in {found.path}", _error(command, option, value)


def _error(command: ClickCommand, option: ClickParameter, value: object) -> str | None:
    """Why the command refuses this value of the option, or that of its variable where it is None; None where it takes it."""
    context = typer.Context(command)  # type: ignore[arg-type] # click's own, from wherever this typer has click
    try:
        option.process_value(context, option.value_from_envvar(context) if value is None else value)
    except typer.ClickException as error:
        return in_plain_words(error)
    except DdpdoctorError as error:
        return f"{error.message}: {error.hint}" if error.hint else error.message
    return None

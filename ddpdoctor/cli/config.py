"""`ddpdoctor config`: which value each option has without being given, and where it comes from."""

from __future__ import annotations

import importlib
import json
import os
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output, project_file
from ddpdoctor.cli.options import ListFormat
from ddpdoctor.errors import DdpdoctorError, UsageError
from ddpdoctor.quoting import quoted
from ddpdoctor.source.pyproject import TABLE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ddpdoctor.cli.project_file import Command, Group, Parameter


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
    from ddpdoctor.cli import COMMANDS

    group = _all(COMMANDS)
    names = list(group.commands)
    if command is not None and command not in names:
        raise UsageError(f"there is no command {command}", hint=f"there are: {', '.join(names)}")
    from_file = project_file.values(group)
    rows = [row for name in names if command in {None, name} for row in _rows(group.commands[name], from_file)]
    if command is None:
        rows = [row for row in rows if row["source"] != "default"]
    if format_ is ListFormat.JSON:
        output.show(json.dumps(rows, indent=2) + "\n")
    else:
        _show(rows)
    if any(row["error"] for row in rows):
        raise typer.Exit(UsageError.exit_code)


def _show(rows: list[dict[str, Any]]) -> None:
    for file in project_file.strangers_here():
        output.show(f"{quoted(project_file.passed_over(file))}\n")
    if not rows:
        output.show("every option has its default: `ddpdoctor config COMMAND` lists them\n")
        return
    cells = [(row["command"], row["option"], _as_text(row["value"])) for row in rows]
    widest = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row, line in zip(rows, cells, strict=True):
        padded = (f"{cell:<{width}}" for cell, width in zip(line, widest, strict=True))
        error = f"  error: {row['error']}" if row["error"] else ""
        output.show("  ".join((*padded, row["source"])) + f"{error}\n")


def _as_text(value: object) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _all(commands: tuple[str, ...]) -> Group:
    app = typer.App("ddpdoctor")
    for name in commands:
        importlib.import_module(f"ddpdoctor.cli.{name}").register(app)
    group: Group = app.group()
    return group


def _rows(command: Command, from_file: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Of each option its value and source, in the order of the help."""
    assert command.name is not None
    found = project_file.found_here()
    for option in command.params:
        if option.param_type_name != "option" or option.name is None:
            continue
        name = typer.long_name(option.opts)
        variable = next((each for each in typer.variables_of(command.name, name) if os.environ.get(each)), None)
        in_file = from_file.get(command.name, {})
        value: object
        error = None
        if variable is not None:
            value, source = os.environ[variable], variable
            error = _error(command, option, None)
        elif option.name in in_file and found is not None:
            own = name.removeprefix("--") in found.table.get(command.name, {})
            table = f"{TABLE}.{command.name}" if own else TABLE
            value, source = in_file[option.name], f"[{table}] in {found.path}"
            error = _error(command, option, value)
        else:
            value, source = option.default, "default"
        shown = value.value if isinstance(value, Enum) else value
        yield {"command": command.name, "option": name, "value": shown, "source": source, "error": error}


def _error(command: Command, option: Parameter, value: object) -> str | None:
    """Why the command refuses this value of the option, or that of its variable where it is None; None where it takes it."""
    context = typer.Context(command)  # type: ignore[arg-type] # click's own, from wherever this typer has click
    try:
        option.process_value(context, option.value_from_envvar(context) if value is None else value)
    except typer.ClickException as error:
        return str(error.format_message())
    except DdpdoctorError as error:
        return f"{error.message}: {error.hint}" if error.hint else error.message
    return None

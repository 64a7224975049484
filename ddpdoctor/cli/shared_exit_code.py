"""Commands that a launcher starts on every rank end with one exit code, that of rank 0."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from ddpdoctor.cli import command_line as typer
from ddpdoctor.errors import DdpdoctorError


def ends_alike(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command end on the other nodes as it does on rank 0's."""

    @wraps(command)
    def ended(**arguments: Any) -> None:  # noqa: ANN401 - as many types as commands have options
        from ddpdoctor.launch.exit_code import one_exit_code

        code = 0
        try:
            command(**arguments)
        except typer.Exit as end:
            code = end.exit_code
        except DdpdoctorError as error:
            one_exit_code(error.exit_code)
            raise
        raise typer.Exit(one_exit_code(code))

    return ended

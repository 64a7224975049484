"""The command line: each command parses, calls, prints and exits. The only place of ddpdoctor that prints or exits."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from enum import Enum
from typing import TYPE_CHECKING, Annotated, NoReturn, Optional, TextIO, cast

from ddpdoctor import __version__
from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import invocation
from ddpdoctor.errors import DdpdoctorError, UsageError

if TYPE_CHECKING:
    from typing_extensions import Buffer

COMMANDS = (
    "init",
    "lint",
    "allreduce_bench",
    "checks",
    "diagnose",
    "env",
    "explain",
    "hang",
    "net",
    "port",
    "smoke",
    "train",
    "verify_sync",
    "watch",
)
FAILED = 4


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ddpdoctor {__version__}")
        raise typer.Exit


class Shell(Enum):
    """Whose completion can be shown."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def _show_completion(shell: str | None) -> None:
    if shell is not None:
        typer.echo(typer.completion_script("ddpdoctor", shell))
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
    _show: Annotated[
        Optional[Shell],  # noqa: UP045 - a default of None on Python 3.10
        typer.Option(
            "--show-completion",
            callback=_show_completion,
            is_eager=True,
            help="Show the completion script: ddpdoctor --show-completion bash >> ~/.bash_completion.",
        ),
    ] = None,
) -> None:
    """Name the rank, the line, the cause and the cure of a sick PyTorch DistributedDataParallel job."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code; a user never sees a traceback for what they did."""
    sys.stdout, sys.stderr = _patient(sys.stdout), _patient(sys.stderr)
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line in this process; returns its exit code."""
    invocation.begin(arguments)
    try:
        result = _app(arguments[:1])(args=arguments, prog_name="ddpdoctor", standalone_mode=False)
    except typer.ClickException as error:
        error.show()
        return 2
    except DdpdoctorError as error:
        _complain(error)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        result = typer.INTERRUPTED
    except Exception as error:
        if isinstance(error, OSError) and error.errno in {errno.ENOSPC, errno.EDQUOT}:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # so that the interpreter's last flush does not complain again
            _complain(DdpdoctorError(f"cannot write the output: {error.strerror}", hint="free disk space there"))
            return FAILED
        if isinstance(error, PermissionError) and error.filename is not None:
            _complain(
                UsageError(f"{error.filename}: {error.strerror}", hint="run it as a user with permission to read it")
            )
            return UsageError.exit_code
        if os.environ.get("DDPDOCTOR_DEBUG"):
            raise
        typer.echo(f"ddpdoctor failed: {type(error).__name__}: {error}", err=True)
        typer.echo("this is a bug in ddpdoctor, not in your job; DDPDOCTOR_DEBUG=1 shows the traceback", err=True)
        return FAILED
    if result == typer.INTERRUPTED:
        typer.echo("ddpdoctor: interrupted", err=True)
    return result if isinstance(result, int) else 0


def _app(first: list[str]) -> typer.App:
    """The commands; where the first word names one, that one alone: to import them all takes longer than some of them run."""
    app = typer.App("ddpdoctor", {"help_option_names": ["-h", "--help"], "max_content_width": typer.WIDTH})
    app.callback()(_root)
    for name in [name for name in COMMANDS if [name.replace("_", "-")] == first] or COMMANDS:
        importlib.import_module(f"{__name__}.{name}").register(app)
    return app


class _Patient(io.FileIO):
    """A stream whose reader may leave early (`| head`): that costs neither the exit code of a verdict nor the case."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes


def _patient(stream: TextIO | None) -> TextIO:
    """`stream`, which stays quiet when nobody reads it any more; None where it was closed from the start."""
    if stream is None:
        return cast(TextIO, None)
    buffer = io.BufferedWriter(_Patient(stream.fileno(), "w", closefd=False))
    return io.TextIOWrapper(
        buffer, encoding=stream.encoding, errors=stream.errors, line_buffering=bool(stream.line_buffering)
    )


def _complain(error: DdpdoctorError) -> None:
    typer.echo(f"ddpdoctor: {error.message}", err=True)
    if error.hint:
        typer.echo(f"  {error.hint}", err=True)

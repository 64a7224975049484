"""The command line: each command parses, calls, prints and exits. The only place of ddpdoctor that prints or exits."""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import signal
import sys
from types import FrameType
from typing import Annotated, NoReturn

from ddpdoctor import __version__
from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import invocation, output
from ddpdoctor.cli.commands import COMMANDS
from ddpdoctor.cli.project_file import defaults
from ddpdoctor.errors import DdpdoctorError, UndecidedError, UsageError
from ddpdoctor.quoting import quoted

FAILED = 4
ABOUT_A_PATH = {
    errno.EACCES: "run it as a user with permission to read it",
    errno.EPERM: "run it as a user with permission to read it",
    errno.ENAMETOOLONG: "a name has at most 255 bytes and a path 4095",
    errno.ELOOP: "a link there leads back to itself",
    errno.ENOTDIR: "a part of the path is a file",
}
"""Errors of the operating system about a path that a user gave, and what can be done."""
MOST_SHOWN = 120  # characters of a path in an error


def _show_version(wanted: bool) -> None:
    if wanted:
        output.show(f"ddpdoctor {__version__}\n")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Name the rank, the line, the cause and the fix of a failing PyTorch DistributedDataParallel job."""


def main() -> NoReturn:
    """Run the command line and leave with its exit code; a user never sees a traceback for what they did.

    SIGTERM and SIGHUP end what runs as Ctrl-C does, so that it can clean up, and then this process as they do without us.
    """
    output.prepare()
    ended_by: list[int] = []

    def end(number: int, _frame: FrameType | None) -> NoReturn:
        ended_by.append(number)
        raise KeyboardInterrupt

    at_rest = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        for number in at_rest:
            if at_rest[number] is not signal.SIG_IGN:
                signal.signal(number, signal.default_int_handler if number == signal.SIGINT else end)
        code = run(sys.argv[1:])
    except KeyboardInterrupt:  # between two statements of ours
        output.say("interrupted")
        code = typer.INTERRUPTED
    finally:
        for number, handler in at_rest.items():
            signal.signal(number, handler)
    if ended_by:
        with contextlib.suppress(OSError):
            output.flush()
        os.kill(os.getpid(), ended_by[0])
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line in this process; returns its exit code. Without a command it shows the help, as wrong usage."""
    if not arguments:
        run(["--help"])
        return UsageError.exit_code
    invocation.begin(arguments)
    try:
        result = _app(arguments[:1])(args=arguments, prog_name="ddpdoctor", standalone_mode=False)
    except typer.ClickException as error:
        from ddpdoctor.cli.mistakes import usage_error

        refused = usage_error(error)
        output.complain(refused.message, hint=refused.hint)
        return refused.exit_code
    except DdpdoctorError as error:
        output.complain(error.message, error.details, error.hint)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        result = typer.INTERRUPTED
    except MemoryError:
        output.complain("the memory does not suffice for what was given", hint="give fewer or smaller files")
        return UndecidedError.exit_code
    except Exception as error:
        code = _of_the_system(error) if isinstance(error, OSError) else None
        if code is not None:
            return code
        if os.environ.get("DDPDOCTOR_DEBUG"):
            raise
        output.show(f"ddpdoctor failed: {quoted(f'{type(error).__name__}: {error}')}\n", err=True)
        output.show("this is a bug in ddpdoctor, not in your job; DDPDOCTOR_DEBUG=1 shows the traceback\n", err=True)
        return FAILED
    if result == typer.INTERRUPTED:
        output.say("interrupted")
    return result if isinstance(result, int) else 0


def _of_the_system(error: OSError) -> int | None:
    """Say what the operating system refused, where that is no bug of ours; returns the exit code, None where it may be one."""
    if error.errno == errno.EIO and error.filename != output.STREAM:
        what = _short(error.filename) if error.filename is not None else "a file cannot be read or written"
        output.complain(f"{what}: {error.strerror}", hint="check the disk that holds it")
        return UsageError.exit_code
    if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EIO}:
        output.discard_output()
        hint = "write it to a file" if error.errno == errno.EIO else "free disk space there"
        output.complain(f"cannot write the output: {error.strerror}", hint=hint)
        return FAILED
    if error.errno == errno.ENOENT and error.filename is None:  # os.getcwd()
        output.complain("the working directory was removed", hint="change to a directory that exists: `cd`")
        return UsageError.exit_code
    if error.errno in ABOUT_A_PATH and error.filename is not None:
        output.complain(f"{_short(error.filename)}: {error.strerror}", hint=ABOUT_A_PATH[error.errno])
        return UsageError.exit_code
    return None


def _short(path: object) -> str:
    text = str(path)
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}... ({len(text)} characters)"


def _app(first: list[str]) -> typer.App:
    """The commands; where the first word names one, that one alone: to import them all takes longer than some of them run."""
    app = typer.App("ddpdoctor", {"help_option_names": ["-h", "--help"], "max_content_width": typer.WIDTH}, defaults)
    app.callback()(_root)
    for name in [name for name in COMMANDS if [name.replace("_", "-")] == first] or COMMANDS:
        importlib.import_module(f"{__name__}.{name}").register(app)
    return app

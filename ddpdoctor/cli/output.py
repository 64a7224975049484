"""The only way to the terminal. What comes from outside is quoted on this way, whoever composed the text."""

from __future__ import annotations

import contextlib
import io
import os
import re
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, TextIO, cast

from ddpdoctor.quoting import acts_on_a_terminal, quoted, quoted_block, quoted_lines, visible

if TYPE_CHECKING:
    from typing_extensions import Buffer

STREAM = "<stdout or stderr>"
"""The `filename` of an error about writing to one of our streams."""
_COLORS = re.compile(r"(\x1b\[[0-9;]{0,16}m)")


def show(text: str, *, err: bool = False, colored: bool = False) -> None:
    """Write `text` of a renderer, whose line breaks are its own; with `colored` its colours pass, too."""
    parts = _COLORS.split(text) if colored else [text]
    _write("".join(part if place % 2 else quoted_block(part) for place, part in enumerate(parts)), err=err)


def ci_commands(text: str) -> None:
    """Write what `render/github.py` made: lines that are commands to the CI service, which `show` would quote."""
    _write("\n".join(map(visible, text.split("\n"))), err=False)


def patch(text: str) -> None:
    """Write a unified diff to stdout, byte by byte as `git apply` and `patch` want it.

    Raises:
        ValueError: a line of it would act on a terminal.
    """
    if any(acts_on_a_terminal(line) for line in text.split("\n")):
        raise ValueError("the diff holds control characters")
    _write(text, err=False)


def say(text: str) -> None:
    """Write a remark about ourselves to stderr: `ddpdoctor: TEXT`, indented from the second line on."""
    first, *others = quoted_lines(text)
    show("\n".join([f"ddpdoctor: {first}", *(f"  {other}" for other in others)]) + "\n", err=True)


def complain(message: str, details: Iterable[str] = (), hint: str = "") -> None:
    """Write an error to stderr: the message, its details and the hint, each a line of its own."""
    say(message)
    show("".join(f"  {quoted(line)}\n" for line in (*details, *([hint] if hint else []))), err=True)


def table(rows: Iterable[tuple[str, str]], *, width: int = 0) -> None:
    """Write names and values, one pair per line, the names padded to the longest or to `width`."""
    listed = [(quoted(name), quoted(value)) for name, value in rows]
    widest = max([width, *(len(name) for name, _ in listed)])
    show("".join(f"{name:<{widest}}  {value}\n" for name, value in listed))


def is_terminal(*, err: bool = False) -> bool:
    """Whether stdout, or stderr, is a terminal."""
    stream = _stream(err=err)
    return stream is not None and stream.isatty()


def markdown(page: str) -> None:
    """Write a page of a finding: as it looks where stdout is a terminal, else as plain text."""
    from ddpdoctor.render.finding_page import as_plain_text, in_readers_order

    if not is_terminal():
        show(as_plain_text(page))
        return
    from rich.markdown import Markdown

    from ddpdoctor.render.console import new_console

    new_console().print(Markdown(quoted_block(in_readers_order(page))))


def raw(text: str) -> None:
    """Write `text` to stderr with its escape sequences: for rows that are drawn, in which what comes from outside is quoted."""
    with contextlib.suppress(OSError, ValueError):
        _write(text, err=True)


def prepare() -> None:
    """Make stdout and stderr streams that a reader may leave, that take any character, and that are open.

    A descriptor that was closed from the start would else be given to the next file that is opened.
    """
    for descriptor in (0, 1, 2):
        with contextlib.suppress(OSError):
            os.fstat(descriptor)
            continue
        os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdout, sys.stderr = _patient(sys.stdout, 1), _patient(sys.stderr, 2)


def flush() -> None:
    """Hand on what was written: a signal that ends us does not."""
    for stream in (_stream(err=False), _stream(err=True)):
        if stream is not None:
            stream.flush()


def discard_output() -> None:
    """Nothing can be written to stdout any more: let the interpreter's last flush not complain again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


class _Patient(io.FileIO):
    """A stream whose reader may leave early (`| head`): that costs neither the exit code of a verdict nor the case."""

    def write(self, data: Buffer, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            return memoryview(data).nbytes
        except OSError as error:
            error.filename = STREAM  # what runs the command tells it from a file that cannot be read
            raise


def _patient(stream: TextIO | None, descriptor: int) -> TextIO:
    """`stream`, which stays quiet when nobody reads it any more; one that was closed from the start takes everything."""
    buffer = io.BufferedWriter(_Patient(stream.fileno() if stream else descriptor, "w", closefd=False))
    return io.TextIOWrapper(
        buffer,
        encoding=stream.encoding if stream else "utf-8",
        errors="backslashreplace",
        line_buffering=stream is not None and bool(stream.line_buffering),
    )


def _stream(*, err: bool) -> TextIO | None:
    return cast("TextIO | None", sys.stderr if err else sys.stdout)


def _write(text: str, *, err: bool) -> None:
    stream = _stream(err=err)
    if stream is not None:
        stream.write(text)
        stream.flush()

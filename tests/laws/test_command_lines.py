"""Every command line of ddpdoctor in the pages and in the messages is one that the program takes."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

from ddpdoctor import cli
from ddpdoctor.cli import command_line

ROOT = Path(__file__).parents[2]
PAGES = sorted({ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")})
SPAN = re.compile(r"`(?:\$ )?((?:python -m )?ddpdoctor [^`]+)`")
BLOCK_LINE = re.compile(r"^ *(?:\$ |srun |torchrun \S+ -m )?(ddpdoctor [a-z][^|>\n]*)", re.MULTILINE)
BLOCK = re.compile(r"^ *```\w*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
NOT_OURS = re.compile(r"^(?:&&|\|\|?|;|>+|2>&1|#.*|\d?>.*)$")
GROUP: Any = get_command(cli._app([]))


def command_lines(text: str) -> Iterator[str]:
    """The command lines in code spans and, one on each line, in code blocks."""
    for block in BLOCK.findall(text):
        yield from BLOCK_LINE.findall(block.replace("\\\n", " "))
    yield from (found.removeprefix("python -m ") for found in SPAN.findall(BLOCK.sub("", text).replace("\n", " ")))


def refused(line: str) -> str:
    """Why ddpdoctor does not take the line; empty where it does. Values are not judged, for they may be placeholders."""
    try:
        words = shlex.split(re.sub(r"\[=.*?\]", "=1", line), comments=True)[1:]
    except ValueError:  # a quotation that goes on
        return ""
    end = next((at for at, word in enumerate(words) if NOT_OURS.match(word)), len(words))
    words = [word.rstrip(",;") for word in words[:end] if word not in {"...", "…"}]
    if not words or words[0].startswith("-"):
        return "" if set(words) <= {"--version", "--help", "-h"} else f"no option {words}"
    command = GROUP.commands.get(words[0])
    if command is None:
        return "" if "X" in words[0] else f"no command {words[0]}"
    context = command_line.Context(command, info_name=words[0], **command.context_settings)
    try:
        command.make_parser(context).parse_args(words[1:])
    except command_line.ClickException as error:
        why = str(error.format_message())
        return (
            "" if "requires an argument" in why and words[-1].startswith("--") else why
        )  # an option that is named alone
    return ""


def texts_of(file: Path) -> Iterator[str]:
    """The texts that a module holds, each with `X` where it puts a value."""
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Constant(value=str(text)):
                yield text
            case ast.JoinedStr(values=parts):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in parts)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_command_lines_of_a_page_are_taken(page: Path) -> None:
    wrong = {line: why for line in command_lines(page.read_text()) if (why := refused(line))}
    assert not wrong


def test_the_command_lines_in_messages_are_taken() -> None:
    wrong = {
        line: (file.relative_to(ROOT).as_posix(), why)
        for top in ("ddpdoctor", "probes", "reference_train")
        for file in (ROOT / top).rglob("*.py")
        for text in texts_of(file)
        for line in command_lines(text)
        if (why := refused(line))
    }
    assert not wrong


def test_a_wrong_command_line_is_found() -> None:
    text = "Type `ddpdoctor watch --stal-after 3 -- x`, or\n```\n$ ddpdoctor wach x | tee log\nddpdoctor lint a.py --fix\n```\n"
    assert [(line, bool(refused(line))) for line in command_lines(text)] == [
        ("ddpdoctor wach x ", True),
        ("ddpdoctor lint a.py --fix", False),
        ("ddpdoctor watch --stal-after 3 -- x", True),
    ]

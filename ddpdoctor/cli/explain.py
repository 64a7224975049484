"""`ddpdoctor explain`: the page of a finding, or the findings that a text can mean."""

from __future__ import annotations

import difflib
import re
import shlex
import sys
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

from ddpdoctor.cli import command_line as typer
from ddpdoctor.cli import output
from ddpdoctor.cli.options import ListFormat
from ddpdoctor.errors import UndecidedError, UsageError

if TYPE_CHECKING:
    from ddpdoctor.symptoms.index import Match

STDIN = "-"
MAX_STDIN_BYTES = 64 << 20  # more than anybody pastes; a log of any size is given as a file
_LIKE_A_CODE = re.compile(r"ddp(?:\d\w*)?", re.IGNORECASE)
LOG_SUFFIXES = {".log", ".txt", ".out", ".err"}


def register(app: typer.App) -> None:
    """Add the command to `app`."""
    settings = {"ignore_unknown_options": True}  # `explain exit code -9`
    short = "Show what a finding, an error or a symptom means."
    app.command("explain", short_help=short, context_settings=settings)(explain)


def explain(
    given: Annotated[
        Optional[list[str]],  # noqa: UP045 - a default of None on Python 3.10
        typer.Argument(metavar="CODE|TEXT|FILE|-", help="A code or name, a text or symptom, a log, or - for stdin."),
    ] = None,
    format_: Annotated[ListFormat, typer.Option("--format", "-f", help="Format of the answer.")] = ListFormat.TEXT,
    index: Annotated[bool, typer.Option("--index", help="Print all symptoms and error texts, as markdown.")] = False,
) -> None:
    """Show what a finding means, or which findings a text can mean, the most likely first.

    A code such as DDP305 or the name of a finding shows its page. A line of a log, an excerpt of several lines, a file or a
    symptom in words ("hangs in the first step", "exit code -9") shows the findings that it can mean, and what tells them apart.
    Nothing leaves this machine.
    """
    if index:
        if given:
            raise UsageError(
                f"--index prints all symptoms, and {given[0]!r} would not be looked up",
                hint=f"`ddpdoctor explain --index`, or `ddpdoctor explain {shlex.join(given)}`",
            )
        from ddpdoctor.catalogue import all_rules
        from ddpdoctor.render.explanation import index_page

        output.show(index_page(all_rules()))
        return
    words = given or []
    if not words:
        raise UsageError("missing argument: a code, a text, a file, or - for stdin", hint='`ddpdoctor explain "TEXT"`')
    _refuse_options(words)
    if len(words) == 1 and _is_code_or_name(words[0]):
        _show_page(words[0], format_)
    else:
        _show_matches(" ".join(words), _matches(words), format_)


def page_of(code: str) -> str:
    """The markdown page of a code: from the installed package first, then from the checkout."""
    name = f"{code}.md"
    installed = Path(str(resources.files("ddpdoctor"))) / "pages" / name
    checkout = Path(__file__).parents[2] / "docs" / "findings" / name
    return next(path for path in (installed, checkout) if path.exists()).read_text(encoding="utf-8")


def _refuse_options(words: Sequence[str]) -> None:
    """A misspelt option of ours is not a part of the text."""
    misspelt = next((word for word in words if word.startswith("--") and " " not in word), None)
    if misspelt is not None:
        raise UsageError(f"no such option: {misspelt}", hint="put a text that contains it in quotes, as one argument")


def _is_code_or_name(word: str) -> bool:
    """Whether `word` is, or is meant to be, the code or name of a finding."""
    from ddpdoctor.catalogue import all_rules

    if _LIKE_A_CODE.fullmatch(word) or word in {rule.code[3:] for rule in all_rules()}:
        return True
    names = [rule.name for rule in all_rules()]
    return "-" in word.strip("-") and bool(difflib.get_close_matches(word.lower(), names, n=1, cutoff=0.8))


def _show_page(word: str, format_: ListFormat) -> None:
    from ddpdoctor.cli.rule_selection import find_rule

    rule = find_rule(word)
    page = page_of(rule.code)
    if format_ is ListFormat.JSON:
        from ddpdoctor.render.explanation import page_as_json

        output.show(page_as_json(rule, page))
    else:
        output.markdown(page)


def _matches(words: Sequence[str]) -> tuple[Match, ...]:
    from ddpdoctor.workflows.explain import explain_file, explain_text

    if len(words) > 1:
        return explain_text(" ".join(words))
    (word,) = words
    if word == STDIN:
        return explain_text(sys.stdin.buffer.read(MAX_STDIN_BYTES).decode("utf-8", "replace"))
    if _is_file(word):
        return explain_file(Path(word))
    return explain_text(word)


def _is_file(word: str) -> bool:
    """Whether `word` is the path of a file.

    Raises:
        UsageError: it is a directory, or it reads like a path and nothing is there.
    """
    try:
        path = Path(word)
        if word and path.is_dir():
            raise UsageError(f"{word} is a directory", hint=f"`ddpdoctor diagnose {word}` reads all files in it")
        exists = path.is_file()
        if word and not exists and path.is_symlink():
            raise UsageError(
                f"{word} is a link that leads to no file", hint="give a file, a text in quotes, or - for stdin"
            )
        if word and not exists and path.exists():
            raise UsageError(f"{word} is not a regular file", hint="give a file, a text in quotes, or - for stdin")
    except (OSError, ValueError):  # a text of several lines is longer than a name may be
        return False
    if not exists and _reads_like_a_path(word):
        raise UsageError(f"{word} does not exist", hint="give a file, a text in quotes, or - for stdin")
    return exists


def _reads_like_a_path(word: str) -> bool:
    """Whether a word without spaces has a suffix and a slash, or the suffix of a log."""
    suffix = Path(word).suffix
    return word.split() == [word] and (suffix in LOG_SUFFIXES or ("/" in word and suffix[1:].isalnum()))


def _show_matches(asked: str, matches: Sequence[Match], format_: ListFormat) -> None:
    from ddpdoctor.cli.terminal import screen
    from ddpdoctor.render.explanation import as_json, as_text

    if format_ is ListFormat.JSON:
        output.show(as_json(asked, matches))
        if not matches:
            raise typer.Exit(UndecidedError.exit_code)
    elif not matches:
        raise UndecidedError(
            "this text resembles no symptom and no error text that ddpdoctor knows",
            hint="give the whole log of all ranks to `ddpdoctor diagnose`, the lines above the first error, or the symptom "
            "in a few words; `ddpdoctor explain --index` lists what is known",
        )
    else:
        output.show(as_text(matches, screen=screen()))

"""A mistake on the command line, said as every other error: what is wrong with which value, then what to type instead."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

from ddpdoctor.errors import UsageError

Command: TypeAlias = Any  # click's, from wherever this typer has click
NO_NUMBER = re.compile(r"is not a valid (int|integer|float)(?: range)?$")
"""What click, and the copy of it in newer versions of typer, says of a value that is no number."""
ALIKE = 0.7  # of difflib's ratio: `--from` for `--format`, and not `--hours` for `--form`


def usage_error(error: Any) -> UsageError:  # noqa: ANN401 - click's exception, from wherever this typer has click
    """What click refuses, with the option or value that was most likely meant."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "ddpdoctor"
    near = next(_meant(error, context.command), None) if context is not None else None
    meant = f"did you mean {near}? " if near is not None else ""
    return UsageError(in_plain_words(error), hint=f"{meant}`{path} --help` shows how it is used")


def in_plain_words(error: Any) -> str:  # noqa: ANN401
    """What is wrong, in one line."""
    unknown_option = getattr(error, "possibilities", None) is not None
    text = " ".join((error.message if unknown_option else error.format_message()).split()).rstrip(".")
    text = NO_NUMBER.sub(lambda said: "is not a number" if said[1] == "float" else "is not a whole number", text)
    return text[:1].lower() + text[1:]


def nearest_options(word: str, command: Command) -> Iterator[str]:
    """Options of `command` that a misspelt `word` can mean, the most likely first: `--form`, `--fromat`, `--json`."""
    names = {name: option for option in command.params for name in option.opts if name.startswith("--")}
    yield from (name for name in names if name.startswith(word))
    yield from difflib.get_close_matches(word, names, cutoff=ALIKE)
    yield from (f"{name} {word.lstrip('-')}" for name, option in names.items() if word.lstrip("-") in _choices(option))


def _meant(error: Any, command: Command) -> Iterator[str]:  # noqa: ANN401
    if getattr(error, "possibilities", None) is not None or type(error).__name__ == "NoSuchOption":
        yield from nearest_options(getattr(error, "option_name", ""), command)
    refused, choices, _ = error.message.partition("' is not one of ")
    if choices:
        yield from difflib.get_close_matches(refused.removeprefix("'"), _choices(error.param), n=1, cutoff=ALIKE)


def _choices(parameter: Any) -> Iterable[str]:  # noqa: ANN401
    """The words that an option takes."""
    return [
        str(getattr(choice, "value", choice)) for choice in getattr(getattr(parameter, "type", None), "choices", ())
    ]

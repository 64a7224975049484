"""Regular expressions of error texts as a reader of a log would write them."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import Any

if sys.version_info >= (3, 11):
    from re import _parser as sre_parse  # type: ignore[attr-defined] # typeshed has no name for it
else:
    import sre_parse

ANYTHING = "…"
MAX_TEXTS = 24  # of one expression
MIN_LETTERS = 4  # less than that is no text
_DOTTED = ANYTHING * 2


def texts_of(regex: str) -> tuple[str, ...]:
    r"""The texts that `regex` finds, one per alternative, with `…` for what varies.

    `failed to (?:bind|listen) on port \d+` gives `failed to bind on port …` and `failed to listen on port …`.
    """
    found = (_tidy(text) for text in islice(_texts(sre_parse.parse(regex)), MAX_TEXTS))
    return tuple(dict.fromkeys(text for text in found if sum(map(str.isalnum, text)) >= MIN_LETTERS))


def _texts(pattern: Sequence[tuple[Any, Any]]) -> Iterator[str]:
    parts = [[*islice(_part(str(op), value), MAX_TEXTS)] for op, value in pattern]
    yield from ("".join(chosen) for chosen in product(*parts))


def _part(op: str, value: Any) -> Iterator[str]:  # noqa: ANN401 - the parser's own types
    match op, value:
        case "LITERAL", code:
            yield chr(code)
        case "IN", choices:
            yield _one_of(choices)
        case "BRANCH", (_, branches):
            for branch in branches:
                yield from _texts(branch)
        case "SUBPATTERN", (*_, inner):
            yield from _texts(inner)
        case (("MAX_REPEAT" | "MIN_REPEAT"), (0, 1, inner)):
            yield from islice(_texts(inner), 1) if _is_plain(inner) else ("",)
        case (("MAX_REPEAT" | "MIN_REPEAT" | "ANY" | "NOT_LITERAL"), _):
            yield ANYTHING
        case _:
            yield ""


def _is_plain(inner: Sequence[tuple[Any, Any]]) -> bool:
    return len(inner) == 1 and str(inner[0][0]) == "LITERAL"


def _one_of(choices: Sequence[tuple[Any, Any]]) -> str:
    """Of `[Tt]` the capital letter, and of a class with a range nothing certain."""
    letters = [chr(value) for op, value in choices if str(op) == "LITERAL"]
    return min(letters) if len(letters) == len(choices) else ANYTHING


def _tidy(text: str) -> str:
    while _DOTTED in text:
        text = text.replace(_DOTTED, ANYTHING)
    return " ".join(text.split()).strip(ANYTHING + " ")

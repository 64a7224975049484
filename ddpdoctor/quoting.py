"""How a text from outside is shown: no character of it can act on a terminal, and no line of it can pass for one of ours."""

from __future__ import annotations

import re
import unicodedata

CONTINUES = "| "
"""Stands before every line but the first of a text of several lines."""
# a line that begins so, also after spaces, is an instruction to the runner of GitHub Actions
_COMMAND = re.compile(r"^[:#](?=:[A-Za-z-][^:]*::|#\[)")


def quoted(text: str) -> str:
    r"""`text` as one line: line breaks and every character that is not printable as an escape (`\n`, `\x1b`, `\u202e`).

    So is the first character of what a CI service would take for a command (`\x3a:error::`).
    """
    shown = visible(text)
    bare = shown.lstrip()
    return f"\\x{ord(bare[0]):02x}{bare[1:]}" if _COMMAND.match(bare) else shown


def visible(text: str) -> str:
    r"""`text` as one line, every character that is not printable as an escape (`\n`, `\x1b`)."""
    return text if text.isprintable() else "".join(map(_visible, text))


def quoted_lines(text: str) -> list[str]:
    """The lines of `text`, each quoted; all but the first begin with `| `."""
    first, *others = text.split("\n")
    return [quoted(first), *(f"{CONTINUES}{quoted(other)}" for other in others)]


def quoted_block(text: str) -> str:
    """`text` of several lines as a whole, where its line breaks are known to be ours: all else is quoted."""
    return "\n".join(map(quoted, text.split("\n")))


def _visible(character: str) -> str:
    if character == "\t" or character.isprintable():
        return character
    return character.encode("unicode_escape").decode("ascii")


def acts_on_a_terminal(line: str) -> bool:
    """Whether a line of a file must be quoted: it holds more than visible characters, spaces, tabs, form feeds and its end."""
    if line.isprintable():
        return False
    return any(not _harmless(character) for character in line.removesuffix("\n").removesuffix("\r"))


def _harmless(character: str) -> bool:
    return character.isprintable() or character in "\t\f\ufeff\u200c\u200d" or unicodedata.category(character) == "Zs"

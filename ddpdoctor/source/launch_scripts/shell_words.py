"""Words of shell: what a word of a syntax tree becomes, with the variables that the script itself has set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from ddpdoctor.source.launch_scripts.shell_syntax import node_text

if TYPE_CHECKING:
    from tree_sitter import Node

MOST_CHARACTERS = 20_000  # of one word; a variable that doubles itself must not fill the memory
_ESCAPED = re.compile(r"\\(.|\n)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r"\\([$`\"\\\n])")


class UnknownExpansion(Enum):
    """What becomes of an expansion that the script does not determine."""

    KEEP = "keep"
    """It stays, as `$NAME`."""
    MARK = "mark"
    """It becomes `«NAME»`: this shell has replaced it before another one reads the text."""


@dataclass
class Variables:
    """What a script has set so far."""

    known: dict[str, str] = field(default_factory=dict)
    """The value of each variable that certainly has it."""
    arrays: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The items of each array that certainly has them."""
    given: tuple[str, ...] | None = None
    """The arguments of the function that runs; None outside of functions."""

    def copy(self) -> Variables:
        """The same, to be changed on its own."""
        return Variables(dict(self.known), dict(self.arrays), self.given)

    def set(self, name: str, value: str, *, known: bool) -> None:
        """Remember a value; with `known=False` the variable has it or the one before."""
        if known and len(value) <= MOST_CHARACTERS:
            self.known[name] = value
        elif self.known.get(name) != value:
            self.known.pop(name, None)

    def set_array(self, name: str, items: Sequence[str], *, known: bool) -> None:
        """Remember an array."""
        if known and sum(map(len, items)) <= MOST_CHARACTERS:
            self.arrays[name] = tuple(items)
        else:
            self.arrays.pop(name, None)

    def forget(self, name: str) -> None:
        """The variable holds nothing that the script determines."""
        self.known.pop(name, None)


def words_of(node: Node, variables: Variables) -> list[str]:
    """The words that one word of the tree becomes: none, one, or those of a list of options in a variable or an array."""
    array = _array(node, variables)
    if array is not None:
        return list(array)
    text = text_of(node, variables)
    if node.type in {"simple_expansion", "expansion"} and text != _plain(node):
        return _split(text)
    return [text]


def text_of(node: Node, variables: Variables, outer: UnknownExpansion = UnknownExpansion.KEEP) -> str:
    """The text that a word becomes, without quotes."""
    kind, raw = node.type, _plain(node)
    if kind in {"word", "number"}:
        return _ESCAPED.sub(lambda match: match[1].strip("\n"), raw)
    if kind == "raw_string":
        return raw[1:-1]
    if kind == "ansi_c_string":
        return raw[2:-1]
    if kind == "string":
        return _joined(node, variables, outer, 1, len(node.text or b"") - 1)
    if kind in {"concatenation", "heredoc_body"}:
        return _joined(node, variables, outer, 0, len(node.text or b""))
    if kind in {"simple_expansion", "expansion"}:
        return _expanded(node, variables, outer)
    if kind == "command_substitution" and (program := _looked_up(node)):
        return program
    if outer is UnknownExpansion.MARK and kind in {
        "command_substitution",
        "arithmetic_expansion",
        "process_substitution",
    }:
        return f"«{re.sub(r'[^A-Za-z_]+', '_', raw).strip('_')}»"
    return raw


def _split(text: str) -> list[str]:
    """The words of a value, as a shell splits it; what another expansion in it becomes is not known, and stays one word."""
    words, word, closing = [], "", list[str]()
    for at, character in enumerate(text):
        if closing:
            if character == closing[-1]:
                closing.pop()
            elif character == "(" and closing[-1] == ")":
                closing.append(")")
        elif character == "`":
            closing.append("`")
        elif character in "({" and text[at - 1 : at] == "$":
            closing.append(")" if character == "(" else "}")
        if character.isspace() and not closing:
            words.append(word)
            word = ""
        else:
            word += character
    return [each for each in (*words, word) if each]


def unquoted(text: str) -> str:
    """A word as written, without the quotes around all of it."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else text


def _joined(node: Node, variables: Variables, outer: UnknownExpansion, start: int, end: int) -> str:
    """The parts of a string or a concatenation, and the text between them."""
    data = node.text or b""
    parts: list[str] = []
    at = start
    for child in node.named_children:
        begin, stop = child.start_byte - node.start_byte, child.end_byte - node.start_byte
        parts.append(_between(data[at:begin]))
        text = child.text or b""
        if child.type in {"string_content", "heredoc_content"}:
            parts.append(_between(text))
        else:
            parts.append(
                " " * (len(text) - len(text.lstrip()))
            )  # the grammar counts blanks before `$` to the expansion
            parts.append(text_of(child, variables, outer))
        at = stop
    parts.append(_between(data[at:end]))
    return "".join(parts)[:MOST_CHARACTERS]


def _between(data: bytes) -> str:
    return _ESCAPED_IN_QUOTES.sub(lambda match: match[1].strip("\n"), data.decode(errors="replace"))


def _name(node: Node) -> str:
    """The variable of `$NAME` or `${NAME}`; empty for anything that takes a part of it, a default or an element."""
    if len(node.named_children) != 1:
        return ""
    child = node.named_children[0]
    if child.type not in {"variable_name", "special_variable_name"}:
        return ""
    name = _plain(child)
    return name if _plain(node) in {f"${name}", f"${{{name}}}"} else ""


def _expanded(node: Node, variables: Variables, outer: UnknownExpansion) -> str:
    name = _name(node)
    if name in variables.known:
        return variables.known[name]
    if not name and (first := _with_default(node)) in variables.known:
        return variables.known[first]
    if outer is UnknownExpansion.MARK:
        return f"«{name or re.sub(r'[^A-Za-z_0-9]+', '_', _plain(node)).strip('_')}»"
    return f"${name}" if name else _plain(node)


def _with_default(node: Node) -> str:
    """The variable of `${NAME:-DEFAULT}` and `${NAME:=DEFAULT}`, else an empty text."""
    match = re.match(r"\$\{(\w+):?[-=]", _plain(node))
    return match[1] if match else ""


def _array(node: Node, variables: Variables) -> tuple[str, ...] | None:
    """The items of `"${NAME[@]}"`, or the arguments of `"$@"` inside a function that was called."""
    match = re.fullmatch(r"\"?\$\{(\w+)\[[@*]\]\}\"?", _plain(node))
    if match:
        return variables.arrays.get(match[1])
    if _plain(node) in {'"$@"', "$@", "$*", '"${@}"'}:
        return variables.given
    return None


def _looked_up(node: Node) -> str:
    """The program of `$(which torchrun)`."""
    match = re.fullmatch(r"(?:\$\(|`)\s*(?:which|command -v|type -p)\s+([\w./-]+)\s*(?:\)|`)", _plain(node))
    return match[1] if match else ""


def _plain(node: Node) -> str:
    text = node_text(node)
    return text.lstrip() if node.type in {"simple_expansion", "expansion", "command_substitution"} else text

"""Comments with the lines of the statement that they stand on: in Python, in shell scripts, in manifests."""

from __future__ import annotations

import io
import re
import tokenize
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ddpdoctor.source.launch_scripts.shell_syntax import parsed_shell

if TYPE_CHECKING:
    from tree_sitter import Node as ShellNode
    from yaml.nodes import Node as YamlNode

Lines = tuple[int, int]
"""The first and the last line, from 1."""

_STATEMENTS = frozenset(
    {"command", "variable_assignment", "declaration_command", "redirected_statement", "pipeline", "list", "test_command"}
)  # fmt: skip
_BODIES = frozenset(
    {"compound_statement", "subshell", "do_group", "heredoc_redirect", "if_statement", "case_statement"}
)
"""What holds statements or texts of its own."""
_LAYOUT = frozenset({tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment, and the statement that it stands on, or that is the next one below it."""

    line: int
    """Where it stands."""
    text: str
    """The comment, from its sign to the end of the line."""
    about: Lines
    """The lines of the statement; its own line where there is none."""


def comments_of_python(text: str) -> list[Comment]:
    """The comments of a module. Decorators belong to the header of their function or class, its body does not."""
    statements: list[Lines] = []
    found: list[tuple[int, str]] = []
    first, begins, decorates = 0, True, False
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                found.append((token.start[0], token.string))
            elif token.type == tokenize.NEWLINE:
                if not decorates:
                    statements.append((first, token.start[0]))
                    first = 0
                begins = True
            elif begins and token.type not in _LAYOUT:
                decorates, begins, first = token.string == "@", False, first or token.start[0]
    except (tokenize.TokenError, SyntaxError):  # what stands above counts
        pass
    return [Comment(line, comment, _about(line, statements)) for line, comment in found]


def comments_of_shell(text: str) -> list[Comment]:
    """The comments of a script, also of the scripts in its strings and here-documents: these are about their own lines.

    Raises:
        ShellUnreadable: the parser is not installed, or the text is no script that a person writes.
    """
    lines = text.split("\n")
    own, within = _shell_comments(parsed_shell(text))
    outer, inner = _cover(lines, [*own, *_continued(lines)]), _cover(lines, _continued(lines))
    return [
        Comment(line, match[0], _about(line, outer if line in within else inner))
        for line, written in enumerate(lines, start=1)
        if (match := _COMMENT.search(written))
    ]


def comments_of_manifest(text: str) -> list[Comment]:
    """The comments of a YAML file: a list of words, or an entry of a list with words alone, is one statement.

    A comment behind a key whose value begins below, `train:  # ...`, is about the first line of that value, too.
    """
    import yaml

    try:
        documents = list(yaml.compose_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError, ValueError):
        documents = []
    lines = text.split("\n")
    statements = _cover(lines, [*_continued(lines), *_entries([each for each in documents if each is not None])])
    return [
        Comment(line, match[0], _with_value(_about(line, statements), written[: match.start()], statements))
        for line, written in enumerate(lines, start=1)
        if (match := _COMMENT.search(written))
    ]


def _with_value(about: Lines, written: str, statements: Sequence[Lines]) -> Lines:
    """The line of a key alone with the line below it."""
    at = bisect_right(statements, about[1], key=lambda each: each[0])
    alone = about[0] == about[1] and written.rstrip().endswith(":")
    return (about[0], statements[at][0]) if alone and at < len(statements) else about


def _about(line: int, statements: Sequence[Lines]) -> Lines:
    """The statement that a comment in a line is about; `statements` are in order and share no line."""
    at = bisect_right(statements, line, key=lambda each: each[0])
    if at and statements[at - 1][1] >= line:
        return statements[at - 1]
    return statements[at] if at < len(statements) else (line, line)


def _cover(lines: Sequence[str], wide: Iterable[Lines]) -> list[Lines]:
    """Every line that is neither empty nor a comment, in order, those of one statement together."""
    single = ((at, at) for at, line in enumerate(lines, start=1) if line.strip() and not line.lstrip().startswith("#"))
    merged: list[Lines] = []
    for first, last in sorted([*wide, *single]):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return merged


def _continued(lines: Sequence[str]) -> Iterator[Lines]:
    """The lines that a backslash joins."""
    first = 0
    for at, line in enumerate(lines, start=1):
        if line.endswith("\\") and not line.lstrip().startswith("#"):
            first = first or at
        elif first:
            yield first, at
            first = 0


def _shell_comments(root: ShellNode) -> tuple[list[Lines], frozenset[int]]:
    """The statements of a script that hold no other ones, and the lines with comments of the script itself."""
    statements: list[ShellNode] = []
    around: set[int] = set()
    within: set[int] = set()
    pending = [root]
    while pending:
        node = pending.pop()
        pending += node.children
        if node.type == "comment":
            within.add(node.start_point[0] + 1)
        elif node.type in _STATEMENTS:
            statements.append(node)
        elif node.type in _BODIES:
            above = node.parent
            while above is not None and above.id not in around:
                around.add(above.id)
                above = above.parent
    return [
        (node.start_point[0] + 1, node.end_point[0] + 1) for node in statements if node.id not in around
    ], frozenset(within)


def _entries(documents: Iterable[YamlNode]) -> Iterator[Lines]:
    pending = [*documents]
    seen: set[int] = set()
    while pending:
        node = pending.pop()
        if id(node) in seen:  # an alias
            continue
        seen.add(id(node))
        if node.id == "mapping":
            for key, value in node.value:
                if value.id == "sequence" and value.value and _words(value.value):
                    yield key.start_mark.line + 1, value.value[-1].end_mark.line + 1
                pending.append(value)
        elif node.id == "sequence":
            for each in node.value:
                if each.id == "mapping" and each.value and _words(value for _, value in each.value):
                    yield each.start_mark.line + 1, each.value[-1][1].end_mark.line + 1
                pending.append(each)


def _words(nodes: Iterable[YamlNode]) -> bool:
    """Whether all are values of one line."""
    return all(node.id == "scalar" and node.start_mark.line == node.end_mark.line for node in nodes)

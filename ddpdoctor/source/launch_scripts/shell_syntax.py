"""Syntax trees of shell: parsing a text with tree-sitter, the kinds of nodes, and what a loop assigns."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

_MOST = {"|": 1000, "=(": 500, "[[": 2000}
"""What the parser takes a time for that grows with the square of their number; 345 public scripts have at most 85, 6 and 27."""
_MOST_STEPPED = 200  # of an expression that steps a counter
_STEPPED = re.compile(r"\b([A-Za-z_]\w{0,60})\s{0,4}(?:\+\+|--|[-+*/]?=(?!=))|(?:\+\+|--)([A-Za-z_]\w{0,60})")
BRANCHES = frozenset(
    {"if_statement", "elif_clause", "else_clause", "case_statement", "case_item", "ternary_expression"}
)
LOOPS = frozenset({"for_statement", "c_style_for_statement", "while_statement"})
TRANSPARENT = frozenset(
    {"program", "compound_statement", "do_group", "subshell", "pipeline", "negated_command", "ERROR"}
)
TESTS = frozenset({"test_command", "negated_command"})
WORDS = frozenset(
    {"word", "number", "string", "raw_string", "ansi_c_string", "concatenation", "simple_expansion", "expansion",
     "command_substitution", "arithmetic_expansion", "brace_expression", "process_substitution"}
)  # fmt: skip


class ShellUnreadable(Exception):  # noqa: N818 - a reason, shown to the user
    """A text is passed over; the message says why: it is no launch script, or the parser is not installed."""


@cache
def _parser() -> Parser:
    try:
        import tree_sitter
        import tree_sitter_bash
    except ImportError:
        raise ShellUnreadable("reading shell needs tree-sitter: `pip install tree-sitter tree-sitter-bash`") from None
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_bash.language()))


def parsed_shell(text: str) -> Node:
    """The syntax tree of a text.

    Raises:
        ShellUnreadable: the parser is not installed, or it would take long over the text.
    """
    for sign, most in _MOST.items():
        if text.count(sign) > most:
            raise ShellUnreadable(f"it has more than {most} times `{sign}`, which no launch script has")
    return _parser().parse(text.encode()).root_node


def node_text(node: Node) -> str:
    """The part of the script that a node stands for, as written."""
    return node.text.decode(errors="replace") if node.text is not None else ""


def assigned_below(loop: Node) -> set[str]:
    """The variables that a loop assigns, by `NAME=...`, `((NAME++))` or `let NAME+=1`."""
    found: set[str] = set()
    pending = [loop]
    while pending:
        node = pending.pop()
        pending += node.named_children
        if node.type == "variable_assignment" and (name := node.child_by_field_name("name")) is not None:
            found.add(node_text(name))
        elif node.type in {"postfix_expression", "unary_expression", "binary_expression"} or (
            node.type == "command" and node_text(node).startswith("let ")
        ):
            found.update(match[1] or match[2] for match in _STEPPED.finditer(node_text(node)[:_MOST_STEPPED]))
    return found

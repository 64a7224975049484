"""Which fixes of a module can be made, without making them: the count that `lint` names needs no libcst."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from ddpdoctor.model import Edit, Fix
from ddpdoctor.source.fixes.apply import fixed
from ddpdoctor.source.fixes.fix_conditions import called, called_by, initialised, lines_of, name_of_distributed

_COMPOUND = re.compile(r"(?:if|elif|else|for|while|with|try|except|finally|async|def|class|match|case)\b[^=]")


def possible(text: str, fixes: Sequence[Fix]) -> tuple[str, list[Fix]]:
    """The text as it is, and those of the fixes that `fixed` could make in it, each for itself."""
    if any(fix.edit is Edit.TORCHRUN for fix in fixes):
        return text, fixed(text, fixes)[1]
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return text, []
    nodes = [*ast.walk(tree)]
    return text, [fix for fix in fixes if _can_be_made(fix, text, tree, nodes)]


def _can_be_made(fix: Fix, text: str, tree: ast.Module, nodes: Sequence[ast.AST]) -> bool:
    """Of the changes that need a certain form of the code, whether it has it."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and node.lineno == fix.line]
    match fix.edit:
        case Edit.REMOVE_ARGUMENT:
            return any(keyword.arg == fix.old for call in calls for keyword in call.keywords)
        case Edit.SORT:
            name = called(fix.old)
            return bool(name) and [called_by(call) for call in calls].count(name) == 1
        case Edit.CALL:
            names = [node for node in nodes if isinstance(node, ast.Name | ast.Attribute) and node.lineno == fix.line]
            return [ast.unparse(node) for node in names].count(fix.old) == 1
        case Edit.FIRST_IN_LOOP:
            loops = [node for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
            return any(loop.lineno == fix.line < loop.body[0].lineno for loop in loops)
        case Edit.RANK_ZERO_FIRST:
            return any(_has_room(node, fix, text) for node in nodes)
        case Edit.END_PROCESS_GROUP:
            return name_of_distributed(text) != "" and any(
                isinstance(node, ast.If) and "__name__" in ast.unparse(node.test) and _is_closed(node)
                for node in tree.body
            )
        case _:
            return True


def _has_room(node: ast.AST, fix: Fix, text: str) -> bool:
    """Whether the line of a fix is one of a simple statement with lines of its own, below the start of the process group."""
    if not isinstance(node, ast.stmt) or hasattr(node, "body") or not node.lineno <= fix.line <= (node.end_lineno or 0):
        return False
    lines = lines_of(text)
    first = lines[node.lineno - 1]
    indent = first[: len(first) - len(first.lstrip())]
    before = "".join(lines[: node.lineno - 1])
    return (
        bool(indent and name_of_distributed(text))
        and not _COMPOUND.match(first.lstrip())
        and lines[(node.end_lineno or 0) - 1].endswith(("\n", "\r"))
        and initialised(before, indent)
    )


def _is_closed(node: ast.If) -> bool:
    return not node.orelse and node.body[0].lineno > node.lineno

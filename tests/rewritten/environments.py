"""Other ways to read the launcher's variables."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.rewritten.trees import Program, at_top, dotted, expression, imported, statements


class _Reads(ast.NodeTransformer):
    def __init__(self, new: str) -> None:
        self.new, self.changed = new, 0

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        if dotted(node.value) == "os.environ" and isinstance(node.ctx, ast.Load):
            self.changed += 1
            return expression(self.new, K=node.slice)
        return self.generic_visit(node)


def read_by(new: str, top: str = "", *lines: str) -> Callable[[Program], int]:
    """`os.environ["RANK"]` in other words."""

    def rewrite(program: Program) -> int:
        count = 0
        for tree in program.values():
            reads = _Reads(new)
            reads.visit(tree)
            if reads.changed:
                at_top(tree, statements(top) if top else [])
                imported(tree, *lines)
            count += reads.changed
        return count

    return rewrite

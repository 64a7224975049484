"""An expression of a program as a line that people see."""

from __future__ import annotations

import ast

from ddpdoctor.evidence.value_chains import CodeLine
from ddpdoctor.source.program.index import Index
from ddpdoctor.source.syntax.code_text import segment, short
from ddpdoctor.source.syntax.scopes import Scope


def code_line(index: Index, scope: Scope, node: ast.expr, line: int = 0) -> CodeLine:
    """The line of an expression, or another `line` of the same function that it decides."""
    source = index.project.sources[scope.file]
    file, number = source.place(line or node.lineno)
    text = segment(source.text.split("\n"), node) or short(node)
    return CodeLine(file=file, line=number, function=scope.name, text=text)

"""The expression of one element of a comprehension over what is written out."""

from __future__ import annotations

import ast
import copy
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ddpdoctor.source.values import Values


def one_of_many(values: Values, node: ast.expr, index: int) -> ast.expr | None:
    """What `a, b = (int(os.environ[key]) for key in ("RANK", "LOCAL_RANK"))` gives to one target; also of `map(int, (x, y))`."""
    key = (id(node), index)
    if key not in values.written_out:
        values.written_out[key] = _written_out(node, index)
    return values.written_out[key]


def _written_out(node: ast.expr, index: int) -> ast.expr | None:
    match node:
        case (
            ast.ListComp(elt=part, generators=[each])
            | ast.GeneratorExp(elt=part, generators=[each])
            | ast.DictComp(value=part, generators=[each])
        ) if not each.ifs:
            if not isinstance(each.target, ast.Name) or (item := _element_at(each.iter, index)) is None:
                return None
            return _Replaced(each.target.id, item).visit(copy.deepcopy(part))  # type: ignore[no-any-return]
        case ast.Call(func=ast.Name(id="map"), args=[ast.Name() as function, listed]):
            item = _element_at(listed, index)
            written = ast.Call(func=function, args=[item], keywords=[]) if item is not None else None
            return ast.copy_location(written, node) if written is not None else None
    return None


def _element_at(node: ast.expr, index: int) -> ast.expr | None:
    listed = node.elts if isinstance(node, ast.Tuple | ast.List) else []
    return listed[index] if 0 <= index < len(listed) else None


class _Replaced(ast.NodeTransformer):
    """Puts an expression in place of a name."""

    def __init__(self, name: str, by: ast.expr) -> None:
        self.name, self.by = name, by

    def visit_Name(self, node: ast.Name) -> ast.expr:
        return self.by if node.id == self.name else node

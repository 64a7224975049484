"""What formatted strings can be, and those that count to the first name that is free."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ddpdoctor.evidence.code_values import Kind, Origin
from ddpdoctor.source.dataflow.origins import TAINTS, At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Block

_ASKS_FOR_A_FOLDER = frozenset({"exists", "is_dir", "isdir"})


def formatted(values: Values, node: ast.JoinedStr, at: At) -> Iterator[Origin]:
    """The alternatives of a formatted string: what its parts say of the rank, and its text as far as constants tell it."""
    parts = node.values
    found = [origin for part in parts if isinstance(part, ast.FormattedValue) for origin in values.of(part, at)]
    if not any(isinstance(part, ast.FormattedValue) for part in parts):
        yield Origin(kind=Kind.CONSTANT, text=values.text(node, at.scope))
        return
    if (test := _asked_in_turn(parts, at) or _asked_until_free(parts, at)) is not None:
        yield Origin(kind=Kind.LOCAL, text=values.text(test, at.scope), note="number")
    text = _with_constants(values, node, parts, at)
    if found and "{" not in text:
        yield Origin(kind=Kind.CONSTANT, text=text)
        return
    tainted = any(origin.kind in TAINTS for origin in found)
    for origin in found:
        if origin.kind in TAINTS:
            yield origin
        elif origin.kind is not Kind.CONSTANT or not tainted:
            yield Origin(kind=Kind.UNKNOWN, text=text)
    if not found:
        yield Origin(kind=Kind.UNKNOWN, text=text)


def _asked_in_turn(parts: list[ast.expr], at: At) -> ast.expr | None:
    """The test by which a loop over numbers ends at the first name that is free: `if not os.path.exists(name): break`."""
    block: Block | None = at.block
    while block is not None and block.form != "for":
        block = block.parent
    loop = block.node if block is not None else None
    if block is None or not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    counts = dotted(loop.iter.func).rpartition(".")[2] in {"range", "count"}
    numbers = {dotted(part.value) for part in parts if isinstance(part, ast.FormattedValue)}
    if not counts or dotted(loop.target) not in numbers:
        return None
    for _, ended in block.ended:
        match ended.test:
            case ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=asked) as test) if ended.ends == "break":
                if dotted(asked).rpartition(".")[2] in _ASKS_FOR_A_FOLDER:
                    return test
    return None


def _asked_until_free(parts: list[ast.expr], at: At) -> ast.expr | None:
    """The test of a `while` that counts to the first name that is free: `while (base / f"run{n}").exists(): n += 1`."""
    for part in parts:
        key = dotted(part.value) if isinstance(part, ast.FormattedValue) else ""
        for definition in at.scope.definitions.get(key, ()):
            loop = definition.block.node
            if definition.form != "augment" or definition.block.form != "while" or not isinstance(loop, ast.While):
                continue
            asked = loop.test
            named = any(isinstance(one, ast.Name | ast.Attribute) and dotted(one) == key for one in ast.walk(asked))
            if (
                named
                and isinstance(asked, ast.Call)
                and isinstance(asked.func, ast.Attribute)
                and asked.func.attr in _ASKS_FOR_A_FOLDER
            ):
                return asked
    return None


def _with_constants(values: Values, node: ast.JoinedStr, parts: list[ast.expr], at: At) -> str:
    """A formatted string as written, with constants in place of the names that hold them."""
    text = values.text(node, at.scope)
    for part in parts:
        if isinstance(part, ast.FormattedValue) and (name := dotted(part.value)):
            found = values.of(part.value, at)
            if len(found) == 1 and found[0].kind is Kind.CONSTANT:
                text = text.replace(f"{{{name}}}", found[0].text.strip("\"'"))
    return text

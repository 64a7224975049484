"""The collectives that a function calls on its way to a line: on every way, or in the two branches of one test."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator

from ddpdoctor.evidence.source import EarlierCall
from ddpdoctor.source.names.torch_names import COLLECTIVES, DIST
from ddpdoctor.source.stack_lines.group_arguments import passes_a_group
from ddpdoctor.source.syntax.scopes import Block, RawCall, RawStatement, Scope

_CALLS_OF_TORCH = COLLECTIVES | {"send", "recv", "isend", "irecv", "batch_isend_irecv"}
_MAKERS = frozenset({
    "nullcontext", "suppress", "tensor", "as_tensor", "zeros", "ones", "full", "empty", "zeros_like", "ones_like", "full_like",
    "empty_like", "float", "int", "str", "bool", "len", "range",
})  # fmt: skip
"""The last part of the names of functions that make a value or a context and communicate with nobody."""
_OF_TENSORS = frozenset({
    "clone", "detach", "repeat", "repeat_interleave", "expand", "expand_as", "view", "reshape", "unsqueeze", "squeeze",
    "flatten", "contiguous", "item", "tolist", "cpu", "double", "half", "long", "new_zeros", "new_ones", "new_tensor",
})  # fmt: skip
"""Methods of tensors that do so; other objects have none of these names that communicates."""
_OF_ONE_PROCESS = frozenset({
    "append", "extend", "items", "keys", "values", "format", "join", "get_rank", "get_world_size", "info", "debug", "warning",
    "write", "flush", "close", "add_scalar", "zero_", "fill_", "mul_", "div_", "add_", "copy_", "sum", "mean", "max", "min",
    "norm",
})  # fmt: skip
_MODULES_OF_ONE_PROCESS = ("torch.", "os.", "time.", "math.", "json.", "logging.", "numpy.", "random.")
_BUILTINS = frozenset(dir(builtins)) - {"exec", "eval", "next", "map", "filter", "super", "getattr"}


def collectives_before(found: RawStatement, scope: Scope) -> Iterator[EarlierCall]:
    """Those of the function above a statement, in blocks around it, within the innermost loop; in a head of a loop, around it."""
    for call in _before(found, scope):
        op = _collective(call.node, scope)
        if op is not None and found.block.inside(call.block):
            yield _earlier(call, op)


def comes_straight(found: RawStatement, scope: Scope) -> bool:
    """Whether nothing in front of the first of these collectives may communicate, on any way to the statement.

    Where there is none: nothing in front of the statement.
    """
    for call in sorted(_before(found, scope), key=lambda one: one.order):
        if found.block.inside(call.block) and _collective(call.node, scope) is not None:
            return True
        if not communicates_with_nobody(call, scope):
            return False
    return True


def branches_before(
    found: RawStatement, scope: Scope
) -> Iterator[tuple[Block, tuple[EarlierCall, ...], tuple[EarlierCall, ...]]]:
    """The `if`s with collectives in front of a statement, with those of their two branches, since the head of the innermost loop.

    None where anything else under a condition or in a loop there may communicate, or a branch leads past the statement.
    """
    inside: dict[ast.If, dict[int, list[RawCall]]] = {}
    blocks: dict[ast.If, Block] = {}
    for call in sorted(_before(found, scope), key=lambda one: one.order):
        beyond = [block for block in call.block.chain() if not found.block.inside(block)]
        if not beyond or (_collective(call.node, scope) is None and communicates_with_nobody(call, scope)):
            continue
        test, first = beyond[0].node, beyond[0]
        if len(beyond) > 1 or not isinstance(test, ast.If) or first.branch > 1 or _collective(call.node, scope) is None:
            return
        if any(_ends(node) for node in (*test.body, *test.orelse)):
            return
        blocks.setdefault(test, first)
        inside.setdefault(test, {}).setdefault(first.branch, []).append(call)
    for test, by_branch in inside.items():
        taken, other = (tuple(_collectives(by_branch.get(branch, []), scope)) for branch in (0, 1))
        yield blocks[test], taken, other


def _only_makes(call: ast.Call) -> bool:
    """Whether a call makes a value or an empty context, such as `torch.tensor(0.0)` and `nullcontext()`, and no collective."""
    name = ast.unparse(call.func).rpartition(".")[2]
    return name in _MAKERS or (name in _OF_TENSORS and isinstance(call.func, ast.Attribute))


def _before(found: RawStatement, scope: Scope) -> Iterator[RawCall]:
    """The calls above a statement since the head of the innermost loop around it."""
    around = scope.loops_around(found.block)
    head = around[-1].node.lineno if around else 0
    own = {*ast.walk(found.node)}
    for call in scope.calls:
        if head <= call.node.lineno <= found.node.lineno and call.node not in own:
            yield call


def _collectives(calls: list[RawCall], scope: Scope) -> Iterator[EarlierCall]:
    for call in sorted(calls, key=lambda one: one.order):
        op = _collective(call.node, scope)
        if op is not None:
            yield _earlier(call, op)


def _earlier(call: RawCall, op: str) -> EarlierCall:
    return EarlierCall(line=call.node.lineno, op=op, grouped=passes_a_group(call.node))


def _ends(node: ast.stmt) -> bool:
    """Whether a way leads out of this statement and not behind it."""
    jumps = (ast.Return, ast.Raise, ast.Break, ast.Continue)
    return any(isinstance(part, jumps) for part in ast.walk(node))


def communicates_with_nobody(call: RawCall, scope: Scope) -> bool:
    """Whether a call communicates with no other rank for certain: it makes a value, or is of a module that knows of no ranks."""
    full = _full_name(call.node, scope)
    name = full.rpartition(".")[2]
    if _only_makes(call.node) or full in _BUILTINS:
        return True
    if full.startswith(DIST):
        return name in _OF_ONE_PROCESS
    return full.startswith(_MODULES_OF_ONE_PROCESS) or (
        name in _OF_ONE_PROCESS and isinstance(call.node.func, ast.Attribute)
    )


def _collective(call: ast.Call, scope: Scope) -> str | None:
    """The name of the collective, send or receive of torch.distributed that this calls, by the file's imports, or None."""
    full = _full_name(call, scope)
    name = full.rpartition(".")[2]
    return name if full.startswith(DIST) and name in _CALLS_OF_TORCH else None


def _full_name(call: ast.Call, scope: Scope) -> str:
    """The name of what is called, with what the file's imports say of its first part."""
    first, _, rest = ast.unparse(call.func).partition(".")
    at: Scope | None = scope
    while at is not None and first not in at.imports:
        at = at.parent
    return ".".join(filter(None, (at.imports[first] if at is not None else first, rest)))

"""What a call does to the names in it: `setattr(model, "head", layer)` assigns to `model.head`, `sys.exit()` ends the block."""

from __future__ import annotations

import ast

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.recorder import Recorder
from ddpdoctor.source.syntax.scopes import Definition, RawCall, RawExit

_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
_CHANGES_ITS_OBJECT = frozenset(
    {"append", "extend", "update", "add", "insert", "add_", "copy_", "step", "put", "add_batch"}
)
_ADDS = frozenset({"append", "insert"})
"""Methods of a list of layers that put one more into it."""
_REGISTERS = frozenset({"add_module", "register_module"})


_WITH_EFFECTS = (
    frozenset(name.rpartition(".")[2] for name in _EXITS)
    | {"fully_shard", "update", "shuffle", "setattr", "sort", "requires_grad_"}
    | _CHANGES_ITS_OBJECT
    | _ADDS
    | _REGISTERS
)
"""The last parts of the names of all calls that have effects."""


def record_call(call: ast.Call, at: Recorder) -> None:
    """Note a call with its effects, in the order in which they are numbered."""
    order = at.tick()
    name = dotted(call.func)
    owner, _, last = name.rpartition(".")
    method = call.func.attr if type(call.func) is ast.Attribute else last
    at.scope.calls.append(RawCall(call, order, at.block, name, last, method))
    if method in _WITH_EFFECTS:
        _record_effects(call, name, owner, last, order, at)


def _record_effects(call: ast.Call, name: str, owner: str, method: str, order: int, at: Recorder) -> None:
    if name in _EXITS:
        _exit(call, order, at)
    if method == "fully_shard":
        _define_first_argument(call, Definition(order, at.block, call, "assign", line=call.lineno), at)
    if method == "update" and owner:
        _update(call, owner, at)
    _set_by_name(call, method, order, at)
    if isinstance(call.func, ast.Attribute):
        if owner and method == "sort":
            at.define(owner, Definition(order, at.block, call.func.value, "sorted", kills=False, line=call.lineno))
        if call.func.attr == "shuffle" and shuffles(call):
            shuffled = Definition(order, at.block, call, "change", kills=False, line=call.lineno)
            _define_first_argument(call, shuffled, at)
        if call.func.attr == "requires_grad_":
            _set_requires_grad(call, call.func.value, order, at)
    if owner and method in _CHANGES_ITS_OBJECT and (call.args or call.keywords):
        named = call.keywords[0].value if method == "add_batch" and call.keywords else None  # `predictions=...`
        given = call.args[0] if call.args else named
        at.define(owner, Definition(order, at.block, given, "change", kills=False, line=call.lineno))


def shuffles(call: ast.Call) -> bool:
    """Whether a call brings a list into another order: `random.shuffle(files)`, `rng.shuffle(files)`."""
    return type(call.func) is ast.Attribute and call.func.attr == "shuffle" and len(call.args) == 1


def _exit(call: ast.Call, order: int, at: Recorder) -> None:
    given = call.args[0] if call.args else None
    fails = given is not None and not (isinstance(given, ast.Constant) and given.value in {0, None})
    at.scope.exits.append(RawExit(call, "exit", order, at.block, fails))
    at.end("exit", fails=fails)


def _define_first_argument(call: ast.Call, definition: Definition, at: Recorder) -> None:
    name = dotted(call.args[0]) if call.args else ""
    if name:
        at.define(name, definition)


def _update(call: ast.Call, owner: str, at: Recorder) -> None:
    """`options.update({"lr": 0.1}, betas=betas)` assigns to `options['lr']` and `options['betas']`."""
    pairs: list[tuple[object, ast.expr, int]] = [
        (one.arg, one.value, one.value.lineno) for one in call.keywords if one.arg is not None
    ]
    taken = call.args[0] if call.args else None
    if isinstance(taken, ast.Name):  # `variables = {"MASTER_PORT": "29500"}`, which nothing has changed before
        given = at.scope.definitions.get(taken.id, ())
        taken = given[0].value if len(given) == 1 and given[0].form == "assign" else None
    if isinstance(taken, ast.Dict):
        items = zip(taken.keys, taken.values, strict=True)
        pairs += [(key.value, value, key.lineno) for key, value in items if isinstance(key, ast.Constant)]
    for key, value, line in pairs:
        at.define(f"{owner}[{key!r}]", Definition(at.tick(), at.block, value, "assign", line=line))


def _set_by_name(call: ast.Call, method: str, order: int, at: Recorder) -> None:
    """`setattr(model, "head", layer)` and `model.add_module("head", layer)` assign to `model.head`."""
    given = call.args
    owner: ast.expr | None = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(call.func, ast.Name) and method == "setattr" and len(given) == 3:
        owner, given = given[0], given[1:]
    elif method in _ADDS and owner is not None and not isinstance(owner, ast.Name) and given:
        at.change(owner, "", given[-1], call.lineno)
        return
    elif method not in _REGISTERS or len(given) != 2:
        return
    if owner is None:
        return
    attribute, owner_name = given[0], dotted(owner)
    if not (owner_name and isinstance(attribute, ast.Constant)):
        at.change(owner, "*", given[1], call.lineno)
    elif isinstance(attribute.value, str):
        key = f"{owner_name}.{attribute.value}"
        at.define(key, Definition(order, at.block, given[1], "assign", line=call.lineno))


def _set_requires_grad(call: ast.Call, owner: ast.expr, order: int, at: Recorder) -> None:
    """`layer.requires_grad_(False)` assigns to `layer.requires_grad`."""
    switched = call.args[0] if call.args else ast.copy_location(ast.Constant(value=True), call)
    name = dotted(owner)
    if name:
        to = Definition(order, at.block, switched, "assign", line=call.lineno)
        to.owner = owner
        at.define(f"{name}.requires_grad", to)
    else:
        at.change(owner, "requires_grad", switched, call.lineno)

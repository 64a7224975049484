"""What a statement asks a framework, or the interpreter, to do later: to stop a loop, to call, to accumulate gradients."""

from __future__ import annotations

import ast
import re

_STOPS = re.compile(r"^should_(?:\w+_)?stop$|^stop_training$")
_CALLS = re.compile(r"^should_(?:evaluate|save)$")
_ACCUMULATES = re.compile(r"\bno_sync\b|\.accumulate\(|\brequire_backward_grad_sync\b|\.set_requires_gradient_sync\(")
_ENDS_A_LOOP = re.compile(r"(?:engine|trainer|evaluator)\w{0,40}\.terminate(?:_epoch)?$", re.IGNORECASE)
"""What Lightning, Transformers and Ignite act on in their loops."""
_SETTINGS = frozenset({"lr", "weight_decay", "momentum", "betas", "eps"})
"""The options of parameter groups that programs write by hand."""
_EXITS = frozenset({"sys.exit", "os._exit", "exit", "quit"})
_IN_PLACE = re.compile(
    r"\b(?:data|weight|bias|param\w{0,40}|p)(?:\[[^\[\]]{0,80}\])?\.(?!requires_grad_)\w{1,80}[a-z0-9]_\("
    r"|\binit\.\w{1,80}[a-z]_\("
)
"""A call that writes weights: `layer.weight.data.mul_(0.9)`, `nn.init.zeros_(head.weight)`."""


def wanted_by(statement: ast.stmt) -> str | None:
    """What a statement asks for later, as `Request.wants`; None of every other one."""
    match statement:
        case _ if (asked := asked_by_value(statement)) is not None:
            name, value = asked
            return None if _is_false(value) else "stop" if _STOPS.search(name) else "call"
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_event_handler" | "add_callback"))):
            return "call"
        case ast.Expr(value=ast.Call(func=ast.Attribute() as called)) if _ENDS_A_LOOP.search(ast.unparse(called)):
            return "stop"
        case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit")) | ast.Name(id="SystemExit")):
            return "stop"
        case ast.Expr(value=ast.Call(func=ast.Name() | ast.Attribute() as called)) if ast.unparse(called) in _EXITS:
            return "exit"
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="backward"))):
            return "backward"
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target) if _is_a_setting(target):
            return "setting"
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="requires_grad_"), args=[value])) if _is_false(value):
            return "freeze"
        case ast.Assign(targets=[ast.Attribute(attr="requires_grad")], value=value) if _is_false(value):
            return "freeze"
        case ast.Expr() | ast.Assign() | ast.AugAssign() if _writes_weights(statement):
            return "weights"
        case ast.With(items=items) if any(_ACCUMULATES.search(ast.unparse(item.context_expr)) for item in items):
            return "accumulate"
        case ast.Assign() | ast.Return() | ast.Expr() if _ACCUMULATES.search(ast.unparse(statement)):
            return "accumulate"
        case _:
            return None


def asked_by_value(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The attribute or argument by which a statement has a framework do something, and its value: true where it is to be done."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _STOPS.search(name) or _CALLS.search(name):
            return name, value
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="log" | "log_dict"), keywords=keywords)):
            return next((("sync_dist", one.value) for one in keywords if one.arg == "sync_dist"), None)
        case _:
            return None


def _is_a_setting(target: ast.expr) -> bool:
    """Whether it is an option of a parameter group, as in `group["lr"] = 0.1`."""
    match target:
        case ast.Subscript(slice=ast.Constant(value=str(name))):
            return name in _SETTINGS
        case _:
            return False


def _writes_weights(statement: ast.Expr | ast.Assign | ast.AugAssign) -> bool:
    """Whether it is an operation in place on a weight, or gives one other data."""
    match statement:
        case ast.Expr(value=value):
            return bool(_IN_PLACE.search(ast.unparse(value)))
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target):
            return isinstance(target, ast.Attribute) and target.attr == "data"
    return False


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value

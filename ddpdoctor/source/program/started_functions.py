"""What a call that starts processes runs in them: a function by its name, inside of a partial, or a parameter of the caller."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import RawCall, Scope

STARTERS = frozenset({"spawn", "start_processes", "Process", "notebook_launcher", "Thread"})
_GIVE_AN_INDEX = frozenset({"spawn", "start_processes", "run"})
_OF_RANKS = _GIVE_AN_INDEX | {"Process"}
_ARGUMENTS_SECOND = frozenset({"spawn", "start_processes", "notebook_launcher"})


@dataclass(frozen=True, slots=True)
class Start:
    """A call that starts processes with a function."""

    scope: Scope
    """Where it stands."""
    call: RawCall
    """The call."""
    function: ast.expr
    """What they run, as written."""
    arguments: tuple[ast.expr, ...]
    """What they give it by position, behind the index."""
    keywords: tuple[tuple[str, ast.expr], ...]
    """What they give it by name."""
    first: int
    """1 where they give it the index of the process first."""
    spawned: str
    """What starts them; empty where that starts no ranks."""

    @property
    def parameter(self) -> str:
        """The parameter of the caller that is the function; empty of any other."""
        name = dotted(self.function)
        return name if name in self.scope.parameters and name not in self.scope.definitions else ""


def start_in(scope: Scope, call: RawCall, how: str) -> Start | None:
    """The start that a call of one of `STARTERS`, or of a method `run`, is; None where it names no function."""
    given = {keyword.arg: keyword.value for keyword in call.node.keywords}
    function = given.get("target") or given.get("fn") or given.get("function") or next(iter(call.node.args), None)
    if function is None:
        return None
    inner, keywords = _within_partial(function, scope)
    if not dotted(inner):
        return None
    arguments = given.get("args")
    if arguments is None and how in _ARGUMENTS_SECOND and len(call.node.args) > 1:
        arguments = call.node.args[1]
    return Start(
        scope=scope,
        call=call,
        function=inner,
        arguments=tuple(arguments.elts) if isinstance(arguments, ast.Tuple | ast.List) else (),
        keywords=(*keywords, *_written_out(given.get("kwargs"))),
        first=1 if how in _GIVE_AN_INDEX else 0,
        spawned=how if how in _OF_RANKS else "",
    )


def _within_partial(function: ast.expr, scope: Scope) -> tuple[ast.expr, Sequence[tuple[str, ast.expr]]]:
    """The function of `partial(work, world=world)`, also under a name, and what it is given by name; else the expression."""
    defined = scope.definitions.get(function.id, ()) if isinstance(function, ast.Name) else ()
    written = defined[0].value if len(defined) == 1 and defined[0].form == "assign" else function
    match written:
        case ast.Call(func=made, args=[inner]) if dotted(made).rpartition(".")[2] == "partial":
            return inner, [(one.arg, one.value) for one in written.keywords if one.arg is not None]
    return function, ()


def _written_out(given: ast.expr | None) -> list[tuple[str, ast.expr]]:
    """The names and values of a dict of keywords that is written out."""
    pairs = zip(given.keys, given.values, strict=True) if isinstance(given, ast.Dict) else ()
    return [(key.value, value) for key, value in pairs if isinstance(key, ast.Constant) and isinstance(key.value, str)]


def call_by_partial(call: RawCall) -> RawCall | None:
    """What a `partial(function, first)` gives, as a call of the function; None where that has no name."""
    name = dotted(call.node.args[0]) if call.node.args else ""
    if not name:
        return None
    node = ast.Call(func=call.node.args[0], args=call.node.args[1:], keywords=call.node.keywords)
    last = name.rpartition(".")[2]
    return replace(call, node=ast.copy_location(node, call.node), name=name, last=last, method=last)

"""Reads where lines stand in the user's source files, where those are at hand."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ddpdoctor.evidence.frames import Frame, is_programs, is_users
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, RankValue, Request, SourceCode
from ddpdoctor.host.owned_files import read_source
from ddpdoctor.source.rank_dataflow import names_of_the_rank, tells_the_rank, values_by_rank

MAX_SOURCE_BYTES = 4 << 20
MAX_TEST = 80  # characters of a condition that are worth showing
MAX_STATEMENT = 400  # characters of a statement that is looked through for the names in it
LINES_AROUND = 3  # before and after a line, for a report
MAX_LINE = 200  # characters of a line in a report
_ONE_RANK_ONLY = re.compile(
    r"(?:^|\.|_)(?:(?:rank_?(?:zero|0)|master|main_process|primary)_only|on_(?:local_)?(?:main_|last_)?process)$"
)
"""Decorators of Lightning, Accelerate, mmcv and others."""
_ONE_RANK_FIRST = re.compile(r"(?:^|[._])(?:process|zero|rank|master|main)_first$")
"""Context managers in which one rank comes first and the others wait: of Transformers, Accelerate and others."""
_STOPS = re.compile(r"^should_(?:\w+_)?stop$|^stop_training$")
_CALLS = re.compile(r"^should_(?:evaluate|save)$")
_ACCUMULATES = re.compile(r"\bno_sync\b|\.accumulate\(|\brequire_backward_grad_sync\b")
_ENDS_A_LOOP = re.compile(r"(?:engine|trainer|evaluator)\w{0,40}\.terminate(?:_epoch)?$", re.IGNORECASE)
"""What Lightning, Transformers and Ignite act on in their loops."""


def source_of(frames: Iterable[Frame], owner: int | None = None) -> SourceCode | None:
    """The places of the user's own and of frameworks' frames among `frames`, or None where none of their files can be read.

    With `owner`, only files count that this user may read. A frame whose function is not the one that stands at its line is
    left out: the file has changed since.
    """
    wanted = sorted({(frame.file, frame.line, frame.function) for frame in frames if is_programs(frame.file)})
    places: list[CodePlace] = []
    requests: list[Request] = []
    for file, lines in itertools.groupby(wanted, key=lambda frame: frame[0]):
        text = _read(Path(file), owner)
        tree = _parse(text) if text is not None else None
        if text is not None and tree is not None:
            found = _places(file, tree, text)
            requests += found.requests() if is_users(file) else ()
            places += [
                place
                for _, line, function in lines
                if (place := found.at(line)) is not None and place.function == function
            ]
    return SourceCode(places=tuple(places), requests=tuple(requests)) if places else None


def excerpts_at(places: Iterable[tuple[str, int]]) -> SourceCode:
    """The lines around `places` (file, line) of text files, for a report; what cannot be read is left out.

    Lines of a notebook are those of its cells and do not stand in its file.
    """
    found = []
    for file, group in itertools.groupby(sorted(places), key=lambda place: place[0]):
        text = _read(Path(file)) if not file.endswith(".ipynb") else None
        if text is not None:
            lines = _lines(text)
            found += [
                CodePlace(file=file, line=line, function="", excerpt=excerpt, excerpt_from=first)
                for _, line in group
                for first, excerpt in [_around(lines, line)]
                if len(excerpt) > line - first
            ]
    return SourceCode(places=tuple(found))


def _lines(text: bytes) -> list[str]:
    """The lines as Python counts them: a form feed ends none."""
    return text.decode(errors="replace").split("\n")


def _around(lines: Sequence[str], line: int) -> tuple[int, tuple[str, ...]]:
    """The number of the first line that a report shows for `line`, and the text from there on."""
    first = max(1, line - LINES_AROUND)
    return first, tuple(text.rstrip("\r")[:MAX_LINE] for text in lines[first - 1 : line + LINES_AROUND])


def _read(path: Path, owner: int | None = None) -> bytes | None:
    try:
        return read_source(path, owner, most=MAX_SOURCE_BYTES)
    except (OSError, ValueError):
        return None


def _parse(text: bytes) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True)
class _Scope:
    """What stands around a node: its function, which begins at line `start`; `ranks` are the names that hold the rank."""

    ranks: frozenset[str] = frozenset()
    function: str = "<module>"
    start: int = 0
    loops: tuple[Loop, ...] = ()
    conditions: tuple[Condition, ...] = ()

    @property
    def depth(self) -> int:
        return len(self.loops) + len(self.conditions)


@dataclass(frozen=True)
class _Index:
    """Every statement of a file by its first line, and the scope that it stands in."""

    file: str
    lines: list[str]
    spans: list[tuple[ast.stmt, int, _Scope]] = field(default_factory=list)

    def _rank_values(self, start: int, line: int) -> Iterator[RankValue]:
        """Those of the function that begins at line `start`, up to `line`."""
        for statement, _, scope in self.spans:
            if scope.start == start and statement.lineno <= line and not hasattr(statement, "body"):
                for value in values_by_rank(statement, scope.ranks):
                    yield RankValue(line=value.lineno, text=_short(value))

    def requests(self) -> Iterator[Request]:
        """Those of the whole file that stand under a condition."""
        for statement, _, scope in self.spans:
            wants = _wants(statement)
            if not scope.conditions and wants != "accumulate":
                continue
            if wants is not None:
                yield Request(
                    file=self.file,
                    line=statement.lineno,
                    function=scope.function,
                    text=ast.unparse(statement).partition("\n")[0][:MAX_STATEMENT],
                    wants=wants,
                    conditions=scope.conditions,
                )

    def at(self, line: int) -> CodePlace | None:
        around = [
            (last - statement.lineno, -scope.depth, statement, scope)
            for statement, last, scope in self.spans
            if statement.lineno <= line <= last
        ]
        if not around:
            return None
        # of `if rank == 0: save()` on one line the deepest
        *_, statement, scope = min(around, key=lambda span: span[:2])
        first, excerpt = _around(self.lines, line)
        return CodePlace(
            file=self.file,
            line=line,
            function=scope.function,
            loops=scope.loops,
            conditions=scope.conditions,
            calls=tuple(_calls(statement)),
            rank_values=tuple(self._rank_values(scope.start, line)),
            excerpt=excerpt,
            excerpt_from=first,
        )


def _wants(statement: ast.stmt) -> str | None:
    """What a statement asks for later, as `Request.wants`; None of every other one."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _STOPS.search(name) or _CALLS.search(name):
            return None if _is_false(value) else "stop" if _STOPS.search(name) else "call"
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="log" | "log_dict"), keywords=keywords)):
            synced = [one.value for one in keywords if one.arg == "sync_dist"]
            return "call" if synced and not _is_false(synced[0]) else None
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="add_event_handler" | "add_callback"))):
            return "call"
        case ast.Expr(value=ast.Call(func=ast.Attribute() as called)) if _ENDS_A_LOOP.search(ast.unparse(called)):
            return "stop"
        case ast.Raise(exc=ast.Call(func=ast.Name(id="SystemExit")) | ast.Name(id="SystemExit")):
            return "stop"
        case ast.With(items=items) if any(_ACCUMULATES.search(ast.unparse(item.context_expr)) for item in items):
            return "accumulate"
        case ast.Assign() if _ACCUMULATES.search(ast.unparse(statement)):
            return "accumulate"
        case _:
            return None


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _places(file: str, tree: ast.Module, text: bytes) -> _Index:
    index = _Index(file, _lines(text))
    pending: list[tuple[ast.AST, _Scope]] = [(tree, _Scope(ranks=names_of_the_rank(tree)))]
    while pending:
        node, scope = pending.pop()
        if isinstance(node, ast.stmt):
            inner = replace(scope, conditions=(*scope.conditions, *_conditions_within(node, scope.ranks)))
            index.spans.append((node, node.end_lineno or node.lineno, inner))
        pending.extend(_inside(node, scope))
    return index


def _inside(node: ast.AST, scope: _Scope) -> Iterator[tuple[ast.AST, _Scope]]:
    """The children of `node`, each with the scope that it stands in."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            inner = _Scope(
                ranks=scope.ranks,
                function=getattr(node, "name", "<lambda>"),
                start=node.lineno,
                conditions=tuple(_decorators(node)),
            )
            yield from ((child, inner) for child in ast.iter_child_nodes(node))
        case ast.For() | ast.AsyncFor() | ast.While():
            jumps = tuple(sorted(_jumps(node.body, scope.ranks), key=lambda jump: jump.line))
            skips = tuple(jump.line for jump in jumps if jump.word == "continue")
            loop = Loop(line=node.lineno, head=_head(node), skips=skips, jumps=jumps)
            inner = replace(scope, loops=(*scope.loops, loop))
            yield from ((child, inner) for child in node.body)
            yield from ((child, scope) for child in node.orelse)
            yield from ((child, scope) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
        case ast.If():
            yield from _branches(node, scope)
        case ast.With() | ast.AsyncWith():
            first = [item.context_expr for item in node.items if _ONE_RANK_FIRST.search(_called(item.context_expr))]
            taken = (Condition(line=node.lineno, test=f"with {_short(one)}", branch=0, by_rank=True) for one in first)
            inner = replace(scope, conditions=(*scope.conditions, *taken))
            yield from ((item, scope) for item in node.items)
            yield from ((child, inner) for child in node.body)
        case ast.ExceptHandler():
            caught = f"except {_short(node.type)}" if node.type is not None else "except"
            handler = Condition(line=node.lineno, test=caught, branch=0)
            yield from ((child, _under(scope, handler)) for child in node.body)
        case _:
            yield from ((child, scope) for child in ast.iter_child_nodes(node))


def _decorators(function: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> Iterator[Condition]:
    """Those by which one rank alone runs the function."""
    for decorator in getattr(function, "decorator_list", ()):
        if _ONE_RANK_ONLY.search(_called(decorator)):
            yield Condition(line=decorator.lineno, test=f"@{_short(decorator)}", branch=0, by_rank=True)


def _called(expression: ast.expr) -> str:
    """The name of what is called, or of what stands there."""
    return ast.unparse(expression.func if isinstance(expression, ast.Call) else expression)


def _jumps(
    nodes: Iterable[ast.AST], ranks: frozenset[str], under: ast.expr | None = None, *, inner: bool = False
) -> Iterator[Jump]:
    """The statements among `nodes` and below them that leave the loop or its turn; of `inner` loops only the `return`s."""
    for node in nodes:
        match node:
            case ast.Continue() | ast.Break() if inner:
                pass
            case ast.Continue() | ast.Break() | ast.Return():
                test = _short(under) if under is not None else ""
                by_rank = under is not None and tells_the_rank(under, ranks)
                yield Jump(line=node.lineno, word=type(node).__name__.lower(), test=test, by_rank=by_rank)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() | ast.expr():
                pass
            case ast.For() | ast.AsyncFor() | ast.While():
                yield from _jumps(node.body, ranks, under, inner=True)
                yield from _jumps(node.orelse, ranks, under, inner=inner)
            case ast.If():
                yield from _jumps((*node.body, *node.orelse), ranks, node.test, inner=inner)
            case _:
                yield from _jumps(ast.iter_child_nodes(node), ranks, under, inner=inner)


def _conditions_within(statement: ast.stmt, ranks: frozenset[str]) -> Iterator[Condition]:
    """The test that decides whether a simple statement calls: of `x = f() if rank == 0 else 0`, `rank == 0 and f()`."""
    match statement:
        case ast.Expr(value=ast.BoolOp(op=operator, values=[test, *_, last])) if _has_call(last):
            branch = 0 if isinstance(operator, ast.And) else 1
        case (
            ast.Expr(value=ast.IfExp(test=test, body=body, orelse=orelse))
            | ast.Assign(value=ast.IfExp(test=test, body=body, orelse=orelse))
        ) if _has_call(body) != _has_call(orelse):
            branch = 0 if _has_call(body) else 1
        case _:
            return
    yield Condition(line=test.lineno, test=_short(test), branch=branch, by_rank=tells_the_rank(test, ranks))


def _has_call(expression: ast.expr) -> bool:
    return any(isinstance(node, ast.Call) for node in ast.walk(expression))


def _calls(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement calls; of a compound one those of its head."""
    head = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr | ast.withitem)]
    for part in head:
        yield from (_short(node.func) for node in ast.walk(part) if isinstance(node, ast.Call))


def _branches(node: ast.If, scope: _Scope) -> Iterator[tuple[ast.AST, _Scope]]:
    """The statements of an `if` and of its `elif`s and `else`, each under the whole statement with its branch's number."""
    branch, at = 0, node
    while True:
        known = Condition(
            line=node.lineno,
            test=_short(at.test),
            branch=branch,
            by_rank=tells_the_rank(at.test, scope.ranks),
        )
        inner = _under(scope, known)
        yield at.test, scope
        yield from ((child, inner) for child in at.body)
        branch += 1
        if len(at.orelse) == 1 and isinstance(at.orelse[0], ast.If) and at.orelse[0].col_offset == node.col_offset:
            at = at.orelse[0]
            continue
        otherwise = _under(scope, replace(known, branch=branch))
        yield from ((child, otherwise) for child in at.orelse)
        return


def _under(scope: _Scope, condition: Condition) -> _Scope:
    return replace(scope, conditions=(*scope.conditions, condition))


def _head(node: ast.For | ast.AsyncFor | ast.While) -> str:
    if isinstance(node, ast.While):
        return f"while {_short(node.test)}"
    return f"for {_short(node.target)} in {_short(node.iter)}"


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= MAX_TEST else f"{text[: MAX_TEST - 3]}..."

"""Reads where lines stand in the user's source files, where those are at hand."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ddpdoctor.analysis.collectives.rank_tests import selects_ranks, tells_ranks_apart
from ddpdoctor.evidence.frames import Frame, is_programs, is_users
from ddpdoctor.evidence.source import Branches, CodePlace, Condition, Jump, Loop, RankValue, Request, SourceCode
from ddpdoctor.host.owned_files import read_source
from ddpdoctor.source.calls_on_the_way import (
    branches_before,
    collectives_before,
    comes_straight,
    communicates_with_nobody,
)
from ddpdoctor.source.group_arguments import passes_a_group
from ddpdoctor.source.loop_counters import counter_of
from ddpdoctor.source.rank_dataflow import (
    compares_the_rank,
    names_of_the_rank,
    selected_ranks,
    tells_the_rank,
    values_by_rank,
)
from ddpdoctor.source.scopes import Block, RawExit, RawLoop, RawStatement, Scope
from ddpdoctor.source.waiting_loops import awaited
from ddpdoctor.source.walk import walk

MAX_SOURCE_BYTES = 4 << 20
MAX_TEST = 80  # characters of a condition that are worth showing
MAX_STATEMENT = 400  # characters of a statement that is looked through for the names in it
LINES_AROUND = 3  # before and after a line, for a report
MAX_LINE = 200  # characters of a line in a report
_ONE_RANK_ONLY = re.compile(
    r"(?:^|\.|_)(?:(?:rank_?(?:zero|0)|one_rank|master|main_process|primary)_only|on_(?:local_)?(?:main_|last_)?process)$"
)
"""Decorators of Lightning, Accelerate, Ignite, mmcv and others."""
CACHES = frozenset(
    {"lru_cache", "functools.lru_cache", "cache", "functools.cache", "cached_property", "functools.cached_property"}
)
"""Decorators of functions that do not run again for what they were asked before."""
_ONE_RANK_FIRST = re.compile(r"(?:^|[._])(?:process|zero|rank|master|main)_first$")
"""Context managers in which one rank comes first and the others wait: of Transformers, Accelerate and others."""
_STOPS = re.compile(r"^should_(?:\w+_)?stop$|^stop_training$")
_CALLS = re.compile(r"^should_(?:evaluate|save)$")
_ACCUMULATES = re.compile(r"\bno_sync\b|\.accumulate\(|\brequire_backward_grad_sync\b|\.set_requires_gradient_sync\(")
_ENDS_A_LOOP = re.compile(r"(?:engine|trainer|evaluator)\w{0,40}\.terminate(?:_epoch)?$", re.IGNORECASE)
"""What Lightning, Transformers and Ignite act on in their loops."""
_EXITS = frozenset({"sys.exit", "os._exit", "exit", "quit"})


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
        found = _index(file, text) if text is not None else None
        if found is not None:
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


def _index(file: str, text: bytes) -> _Index | None:
    try:
        tree = ast.parse(text)
        return _Index(file, _lines(text), names_of_the_rank(tree), walk(tree, file))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


@dataclass(frozen=True)
class _Index:
    """Every statement of a file with the block that it stands in, as `walk` found them for `lint`, too."""

    file: str
    lines: list[str]
    ranks: Mapping[str, ast.expr | None]
    """The names that hold the rank, with their values."""
    scopes: list[Scope]

    def requests(self) -> Iterator[Request]:
        """Those of the whole file that stand under a condition, or that ask to accumulate."""
        for scope in self.scopes:
            for found in scope.statements:
                wants = _wants(found.node)
                conditions = self._conditions(found, scope) if wants is not None else ()
                if wants is not None and (conditions or wants == "accumulate"):
                    yield Request(
                        file=self.file,
                        line=found.node.lineno,
                        function=scope.name,
                        text=ast.unparse(found.node).partition("\n")[0][:MAX_STATEMENT],
                        wants=wants,
                        conditions=conditions,
                    )

    def at(self, line: int) -> CodePlace | None:
        """The innermost statement at a line; of `if rank == 0: save()` on one line the deepest."""
        around = [
            (found, scope)
            for scope in self.scopes
            for found in scope.statements
            if found.node.lineno <= line <= (found.node.end_lineno or found.node.lineno)
        ]
        if not around:
            return None
        found, scope = min(around, key=_size)
        first, excerpt = _around(self.lines, line)
        return CodePlace(
            file=self.file,
            line=line,
            function=scope.name,
            loops=tuple(self._loop(loop, scope) for loop in scope.loops_around(found.block)),
            conditions=self._conditions(found, scope),
            exits=tuple(self._exits(found, scope)),
            calls=tuple(_short(call.func) for call in _called_by(found.node)),
            rank_values=tuple(self._rank_values(scope, line)),
            collectives=tuple(collectives_before(found, scope)),
            straight=comes_straight(found, scope),
            branches=tuple(self._branches(found, scope)),
            grouped=any(passes_a_group(call) for call in _called_by(found.node)),
            excerpt=excerpt,
            excerpt_from=first,
        )

    def _branches(self, found: RawStatement, scope: Scope) -> Iterator[Branches]:
        for block, taken, other in branches_before(found, scope):
            condition = self._condition(block)
            if condition is not None:
                yield Branches(condition=replace(condition, branch=0), taken=taken, other=other)

    def _rank_values(self, scope: Scope, line: int) -> Iterator[RankValue]:
        """Those of a function, up to `line`, the nearest first; of compound statements only those in the heads of its loops."""
        for found in reversed(scope.statements):
            is_head = isinstance(found.node, ast.For | ast.AsyncFor) and line <= (found.node.end_lineno or 0)
            if found.node.lineno <= line and (is_head or not hasattr(found.node, "body")):
                keywords = {
                    id(one.value): one.arg or "" for one in ast.walk(found.node) if isinstance(one, ast.keyword)
                }
                values = [*values_by_rank(found.node, self.ranks)]
                stop = (
                    _stop(found.node) if len(values) == 1 else None
                )  # two are the ends of a share, of one length everywhere
                for value, compares in values:
                    targets = tuple(_short(target) for target in getattr(found.node, "targets", ()))
                    yield RankValue(
                        line=value.lineno,
                        text=_short(value),
                        targets=targets,
                        compares=compares,
                        keyword=keywords.get(id(value), ""),
                        in_head=stop is not None and value in ast.walk(stop),
                    )

    def _conditions(self, found: RawStatement, scope: Scope) -> tuple[Condition, ...]:
        """Those around a statement, outermost first: decorators, blocks, and a test in the statement itself."""
        blocks = [*found.block.chain(), *_blocks_within(found, scope)]
        around = (condition for block in blocks if (condition := self._condition(block)) is not None)
        asked = self._asked_by_value(found.node)
        return (
            *_decorators(scope, self.ranks),
            *self._left_to(found),
            *around,
            *self._tested_first(found.node),
            *asked,
        )

    def _tested_first(self, statement: ast.stmt) -> Iterator[Condition]:
        """The tests of the rank that stand before the only call of an `if`, in its own test: `if is_main() and evaluate():`."""
        test = statement.test if isinstance(statement, ast.If | ast.While) else None
        if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
            return
        tested = [
            Condition(line=part.lineno, test=_short(part), branch=0, by_rank=tells_the_rank(part, self.ranks))
            for part in test.values
        ]
        calls = [
            at
            for at, part in enumerate(test.values)
            if not tells_ranks_apart(tested[at]) and any(isinstance(node, ast.Call) for node in ast.walk(part))
        ]
        if len(calls) == 1:
            yield from (one for one in tested[: calls[0]] if tells_ranks_apart(one))

    def _asked_by_value(self, statement: ast.stmt) -> Iterator[Condition]:
        """The value by which a statement asks a framework for something on some ranks: `sync_dist=rank != 1`."""
        asked = _asked(statement)
        if asked is not None:
            name, value = asked
            by_rank = tells_the_rank(value, self.ranks)
            condition = Condition(line=value.lineno, test=f"{name}={_short(value)}", branch=0, by_rank=by_rank)
            if tells_ranks_apart(condition):
                yield condition

    def _left_to(self, found: RawStatement) -> Iterator[Condition]:
        """Tests that name a rank by which other ranks have returned from the function above a statement, as branches not taken.

        A `return` in a loop around the statement is one of the ways out of that loop: see `Loop.jumps`.
        """
        chain = found.block.chain()
        for at in itertools.takewhile(lambda block: block.form not in {"for", "while"}, chain):
            for _, left in at.ended:
                ends = (left.node.end_lineno or 0) if isinstance(left.node, ast.If) else 0
                if left.form == "if" and left.ends == "return" and left not in chain and ends < found.node.lineno:
                    test = self._condition(left)
                    if test is not None and selects_ranks(test.test) and tells_ranks_apart(test):
                        yield replace(test, branch=test.branch + 1, elif_=False)

    def _condition(self, block: Block) -> Condition | None:
        """What a block says of when it runs; None of loops, of `try`, and of a `with` that lets every rank in."""
        node, test = block.node, block.test
        match block.form:
            case "if" | "else" | "and" | "or" if test is not None:
                line, first = block.tested_at, node.lineno if isinstance(node, ast.If) else 0
                return Condition(
                    line=line,
                    test=_short(test),
                    branch=block.branch,
                    by_rank=tells_the_rank(test, self.ranks),
                    elif_=first > 0 and block.form == "if" and block.branch > 0,
                    first=first if first != line else 0,
                    selects=selected_ranks(test, self.ranks),
                )
            case "except" if (handler := block.handler) is not None:
                caught = f"except {_short(test)}" if test is not None else "except"
                return Condition(line=handler.lineno, test=caught, branch=0)
            case "with" if isinstance(node, ast.withitem) and _ONE_RANK_FIRST.search(_called(node.context_expr)):
                text = f"with {_short(node.context_expr)}"
                return Condition(line=node.context_expr.lineno, test=text, branch=0, by_rank=True)
        return None

    def _loop(self, loop: RawLoop, scope: Scope) -> Loop:
        jumps = tuple(sorted(self._jumps(loop, scope), key=lambda jump: jump.line))
        condition = awaited(loop.node)
        return Loop(
            line=loop.node.lineno,
            head=_head(loop.node),
            skips=tuple(jump.line for jump in jumps if jump.word == "continue"),
            jumps=jumps,
            awaits=_short(condition) if condition is not None else "",
            counter=counter_of(loop.node),
        )

    def _jumps(self, loop: RawLoop, scope: Scope) -> Iterator[Jump]:
        """The statements that leave the loop or its turn; of loops inside of it only the `return`s."""
        for leaves in scope.exits:
            if leaves.form not in {"break", "continue", "return"} or not leaves.block.inside(loop.body):
                continue
            inside = leaves.block.chain()[loop.body.depth + 1 :]
            if leaves.form == "return" or not any(block.form in {"for", "while"} for block in inside):
                yield self._jump(leaves, inside)

    def _exits(self, found: RawStatement, scope: Scope) -> Iterator[Jump]:
        """The `return`s under a condition that a run may come to around the statement, and the handlers of its errors."""
        for leaves in scope.exits:
            if leaves.form == "swallow" and any(block.node is leaves.block.node for block in found.block.chain()):
                caught = self._condition(leaves.block)
                if caught is not None and found.node.lineno < caught.line:
                    yield Jump(line=caught.line, word=caught.test)
            elif leaves.form == "return" and not leaves.block.excludes(found.block):
                jump = self._jump(leaves, [block for block in leaves.block.chain() if not found.block.inside(block)])
                if jump.test:
                    yield jump

    def _jump(self, leaves: RawExit, inside: Sequence[Block]) -> Jump:
        """With the test that it stands under in `inside`, the blocks around it from the outermost that counts."""
        around = (self._condition(block) for block in reversed(inside) if block.form in {"if", "else"})
        tests = [one for one in around if one is not None]
        test = next((one for one in tests if tells_ranks_apart(one)), tests[0] if tests else None)
        further = [one for one in tests[:1] if test is not None and one is not test and test.holds and one.holds]
        return Jump(
            line=leaves.node.lineno,
            word=leaves.form,
            test=" and ".join(one.test for one in (test, *further) if one is not None)[:MAX_TEST],
            by_rank=test is not None and test.by_rank,
            branch=0 if test is None or test.holds else 1,
            tested=test.line if test is not None else 0,
        )


def _size(found: tuple[RawStatement, Scope]) -> tuple[int, int]:
    """How many lines a statement has, and of equally long ones how deep it stands, the deepest first."""
    node, block = found[0].node, found[0].block
    return (node.end_lineno or node.lineno) - node.lineno, -block.depth


def _blocks_within(found: RawStatement, scope: Scope) -> list[Block]:
    """The block that decides whether a statement calls: of `x = f() if rank == 0 else 0`, `rank == 0 and f()`.

    Also of `with first() if rank else nullcontext():`. None where both alternatives make calls that may communicate.
    """
    decided: list[Block] = []
    for whole in _choices(found.node):
        around = (
            block for call in scope.calls if not communicates_with_nobody(call, scope) for block in call.block.chain()
        )
        alternatives = {block.branch: block for block in around if block.node is whole}
        decided += alternatives.values() if len(alternatives) == 1 else ()
    return decided


def _choices(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement that are evaluated in part: its whole value, or what a `with` enters."""
    match statement:
        case ast.Expr(value=ast.BoolOp() | ast.IfExp() as whole):
            yield whole
        case (
            ast.Assign(value=ast.IfExp() as whole)
            | ast.AugAssign(value=ast.IfExp() as whole)
            | ast.AnnAssign(value=ast.IfExp() as whole)
            | ast.Return(value=ast.IfExp() as whole)
        ):
            yield whole
        case ast.With(items=items) | ast.AsyncWith(items=items):
            yield from (item.context_expr for item in items if isinstance(item.context_expr, ast.IfExp))


def _wants(statement: ast.stmt) -> str | None:
    """What a statement asks for later, as `Request.wants`; None of every other one."""
    match statement:
        case _ if (asked := _asked(statement)) is not None:
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
        case ast.With(items=items) if any(_ACCUMULATES.search(ast.unparse(item.context_expr)) for item in items):
            return "accumulate"
        case ast.Assign() | ast.Return() | ast.Expr() if _ACCUMULATES.search(ast.unparse(statement)):
            return "accumulate"
        case _:
            return None


def _stop(node: ast.stmt) -> ast.expr | None:
    """The end of the `range` that a loop goes over."""
    match node:
        case ast.For(iter=ast.Call(func=ast.Name(id="range"), args=[stop] | [_, stop, *_])):
            return stop
        case _:
            return None


def _asked(statement: ast.stmt) -> tuple[str, ast.expr] | None:
    """The attribute or argument by which a statement has a framework do something, and its value: true where it is to be done."""
    match statement:
        case ast.Assign(targets=[ast.Attribute(attr=name)], value=value) if _STOPS.search(name) or _CALLS.search(name):
            return name, value
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="log" | "log_dict"), keywords=keywords)):
            return next((("sync_dist", one.value) for one in keywords if one.arg == "sync_dist"), None)
        case _:
            return None


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _decorators(scope: Scope, ranks: Collection[str]) -> Iterator[Condition]:
    """Those by which one rank alone runs the function, or a rank that was asked before does not: its cache answers.

    And those whose arguments depend on the rank: `@trainer.on(Events.EPOCH_COMPLETED(every=2 + (rank == 1)))`.
    """
    for decorator in scope.decorators:
        called = _called(decorator)
        by_rank = _ONE_RANK_ONLY.search(called) is not None or compares_the_rank(decorator, ranks)
        if by_rank or called in CACHES:
            yield Condition(line=decorator.lineno, test=f"@{_short(decorator)}", branch=0, by_rank=by_rank)


def _called(expression: ast.expr) -> str:
    """The name of what is called, or of what stands there."""
    return ast.unparse(expression.func if isinstance(expression, ast.Call) else expression)


def _called_by(statement: ast.stmt) -> Iterator[ast.Call]:
    """The calls of a statement; of a compound one those of its head."""
    head = [child for child in ast.iter_child_nodes(statement) if isinstance(child, ast.expr | ast.withitem)]
    return (node for part in head for node in ast.walk(part) if isinstance(node, ast.Call))


def _head(node: ast.For | ast.AsyncFor | ast.While) -> str:
    if isinstance(node, ast.While):
        return f"while {_short(node.test)}"
    return f"for {_short(node.target)} in {_short(node.iter)}"


def _short(node: ast.expr) -> str:
    text = ast.unparse(node)
    return text if len(text) <= MAX_TEST else f"{text[: MAX_TEST - 3]}..."

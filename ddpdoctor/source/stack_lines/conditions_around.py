"""The conditions under which a statement runs: of decorators, of blocks around it, of tests in it and before it."""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from ddpdoctor.analysis.collectives.places.rank_tests import selects_ranks, tells_ranks_apart
from ddpdoctor.evidence.source import SIGNAL_HANDLER, Condition
from ddpdoctor.source.stack_lines.calls_before_line import communicates_with_nobody
from ddpdoctor.source.stack_lines.framework_requests import asked_by_value
from ddpdoctor.source.stack_lines.rank_dataflow import compares_the_rank, selected_ranks, tells_the_rank
from ddpdoctor.source.syntax.code_text import short
from ddpdoctor.source.syntax.scopes import Block, RawStatement, Scope

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


@dataclass(frozen=True)
class ConditionsAround:
    """Finds the conditions of statements of one file."""

    ranks: Mapping[str, ast.expr | None]
    """The names that hold the rank, with their values."""
    signal_handlers: frozenset[str] = frozenset()
    """The names of the functions that the file has signals handled by."""

    def of(self, found: RawStatement, scope: Scope) -> tuple[Condition, ...]:
        """The conditions of a statement, outermost first."""
        blocks = [*found.block.chain(), *_blocks_within(found, scope)]
        around = (condition for block in blocks if (condition := self.of_block(block)) is not None)
        return (
            *_decorators(scope, self.ranks),
            *self._handler(scope),
            *self._left_to(found),
            *around,
            *self._tested_first(found.node),
            *self._asked_by_value(found.node),
        )

    def _handler(self, scope: Scope) -> Iterator[Condition]:
        """That the function is the handler of a signal."""
        if scope.name in self.signal_handlers:
            yield Condition(line=getattr(scope.node, "lineno", 0), test=f"{SIGNAL_HANDLER}{scope.name}", branch=0)

    def of_block(self, block: Block) -> Condition | None:
        """What a block says of when it runs; None of loops, of `try`, and of a `with` that lets every rank in."""
        node, test = block.node, block.test
        match block.form:
            case "if" | "else" | "and" | "or" if test is not None:
                line, first = block.tested_at, node.lineno if isinstance(node, ast.If) else 0
                return Condition(
                    line=line,
                    test=short(test),
                    branch=block.branch,
                    by_rank=tells_the_rank(test, self.ranks),
                    elif_=first > 0 and block.form == "if" and block.branch > 0,
                    first=first if first != line else 0,
                    selects=selected_ranks(test, self.ranks),
                )
            case "except" if (handler := block.handler) is not None:
                caught = f"except {short(test)}" if test is not None else "except"
                return Condition(line=handler.lineno, test=caught, branch=0)
            case "with" if isinstance(node, ast.withitem) and _ONE_RANK_FIRST.search(_called(node.context_expr)):
                text = f"with {short(node.context_expr)}"
                return Condition(line=node.context_expr.lineno, test=text, branch=0, by_rank=True)
        return None

    def _tested_first(self, statement: ast.stmt) -> Iterator[Condition]:
        """The tests of the rank that stand before the only call of an `if`, in its own test: `if is_main() and evaluate():`."""
        test = statement.test if isinstance(statement, ast.If | ast.While) else None
        if not isinstance(test, ast.BoolOp) or not isinstance(test.op, ast.And):
            return
        tested = [
            Condition(line=part.lineno, test=short(part), branch=0, by_rank=tells_the_rank(part, self.ranks))
            for part in test.values
        ]
        calls = [
            at
            for at, part in enumerate(test.values)
            if not tells_ranks_apart(tested[at]) and any(isinstance(node, ast.Call) for node in ast.walk(part))
        ]
        if len(calls) == 1:
            yield from filter(tells_ranks_apart, tested[: calls[0]])

    def _asked_by_value(self, statement: ast.stmt) -> Iterator[Condition]:
        """The value by which a statement asks a framework for something on some ranks: `sync_dist=rank != 1`."""
        asked = asked_by_value(statement)
        if asked is not None:
            name, value = asked
            by_rank = tells_the_rank(value, self.ranks)
            condition = Condition(line=value.lineno, test=f"{name}={short(value)}", branch=0, by_rank=by_rank)
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
                    test = self.of_block(left)
                    if test is not None and selects_ranks(test.test) and tells_ranks_apart(test):
                        yield replace(test, branch=test.branch + 1, elif_=False)


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


def signal_handlers(scopes: Iterable[Scope]) -> frozenset[str]:
    """The names of the functions that these scopes give to `signal.signal`."""
    given = (call.node.args[1] for scope in scopes for call in scope.calls if _sets_a_handler(call.node))
    return frozenset(_called(handler).rpartition(".")[2] for handler in given)


def _sets_a_handler(call: ast.Call) -> bool:
    return _called(call) in ("signal.signal", "signal") and len(call.args) == 2


def _decorators(scope: Scope, ranks: Collection[str]) -> Iterator[Condition]:
    """Those by which one rank alone runs the function, or a rank that was asked before does not: its cache answers.

    And those whose arguments depend on the rank: `@trainer.on(Events.EPOCH_COMPLETED(every=2 + (rank == 1)))`.
    """
    for decorator in scope.decorators:
        called = _called(decorator)
        by_rank = _ONE_RANK_ONLY.search(called) is not None or compares_the_rank(decorator, ranks)
        if by_rank or called in CACHES:
            yield Condition(line=decorator.lineno, test=f"@{short(decorator)}", branch=0, by_rank=by_rank)


def _called(expression: ast.expr) -> str:
    """The name of what is called, or of what stands there."""
    return ast.unparse(expression.func if isinstance(expression, ast.Call) else expression)

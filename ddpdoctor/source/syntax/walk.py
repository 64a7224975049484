"""One walk over a parsed module, without judgement: every function with its blocks, assignments, calls, loops and exits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.divisions import numbered
from ddpdoctor.source.syntax.match_cases import as_comparison
from ddpdoctor.source.syntax.recorder import Recorder
from ddpdoctor.source.syntax.scopes import Block, Definition, RawExit, RawLoop, RawStatement, Scope
from ddpdoctor.source.syntax.walk_expressions import Expressions


def walk(tree: ast.Module, file: str) -> list[Scope]:
    """Every scope of a module, the module itself first."""
    at = Recorder(tree, file)
    _Statements(at).body(tree.body)
    at.scope.last_order = at.order
    return at.scopes


class _Statements:
    def __init__(self, at: Recorder) -> None:
        self.at = at
        self.expressions = Expressions(at)

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.at.scope.statements.append(RawStatement(statement, self.at.block))
            visit = _VISITS.get(type(statement))
            if visit is not None:
                visit(self, statement)

    def _inner(self, block: Block, statements: list[ast.stmt]) -> None:
        before, self.at.block = self.at.block, block
        block.order = self.at.tick()
        self.body(statements)
        self.at.return_to(block)
        self.at.block = before

    def assign(self, node: ast.Assign) -> None:
        if self.expressions.names_a_lambda(node.targets, node.value):
            return
        self.expressions.value(node.value)
        for target in node.targets:
            self.expressions.target(target, node.value, "assign")
        self.at.enter_context(node.value)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None and self.expressions.names_a_lambda([node.target], node.value):
            return
        self.expressions.value(node.value)
        if isinstance(node.target, ast.Name):
            self.at.scope.fields.append(node.target.id)
        if node.value is not None:
            self.expressions.target(node.target, node.value, "assign")

    def augmented(self, node: ast.AugAssign) -> None:
        self.expressions.value(node.value)
        key = dotted(node.target.value if isinstance(node.target, ast.Subscript) else node.target)
        if key:
            order, block = self.at.tick(), self.at.block
            joined = Definition(order, block, node.value, "augment", kills=False, line=node.lineno)
            joined.operator = type(node.op).__name__
            self.at.define(key, joined)
        self.at.write(node.target, node.value, replaces=False)

    def expression(self, node: ast.Expr) -> None:
        self.expressions.value(node.value)
        self.at.enter_context(node.value)

    def assert_(self, node: ast.Assert) -> None:
        self.expressions.value(node.test)

    def if_(self, node: ast.If) -> None:
        """An `if` with all its `elif`s is one statement with several branches."""
        outer, blocks = self.at.block, []
        for branch, at in enumerate(_branches(node)):
            self.expressions.value(at.test)
            block = Block("if", node, outer, branch=branch)
            block.test = at.test
            self.expressions.tested(block)
            blocks.append(block)
            self._picked(at, outer)
            self._inner(block, at.body)
        if at.orelse:
            last = Block("else", node, outer, branch=len(blocks))
            last.test = at.test
            self._inner(last, at.orelse)
            blocks.append(last)
        self.at.join(blocks, complete=bool(at.orelse))

    def _picked(self, node: ast.If, outer: Block) -> None:
        """A loop that goes on to the next item by a remainder takes a part of them: `if i % world_size != rank: continue`."""
        loop, test = outer.node, node.test
        if not isinstance(loop, ast.For) or not isinstance(test, ast.Compare) or not isinstance(test.left, ast.BinOp):
            return
        skips = isinstance(node.body[0], ast.Continue) and isinstance(test.ops[0], ast.NotEq)
        takes = isinstance(test.ops[0], ast.Eq) and not node.orelse and loop.body[-1] is node
        if isinstance(test.left.op, ast.Mod) and (skips or takes):
            self.at.cut(test, numbered(loop.iter), (*test.comparators, test.left.right))

    def match_(self, node: ast.Match) -> None:
        self.expressions.value(node.subject)
        outer, blocks, complete = self.at.block, [], False
        for branch, case in enumerate(node.cases):
            block = Block("case", node, outer, branch=branch)
            block.test = as_comparison(node, branch)
            complete = complete or (isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None)
            blocks.append(block)
            self._inner(block, case.body)
        self.at.join(blocks, complete=complete)

    def for_(self, node: ast.For | ast.AsyncFor) -> None:
        self.expressions.value(node.iter)
        self._loop(node)

    def while_(self, node: ast.While) -> None:
        self.expressions.value(node.test)
        self._loop(node)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While) -> None:
        order, before = self.at.tick(), self.at.block
        body = Block("while" if isinstance(node, ast.While) else "for", node, before, order=order)
        loop = RawLoop(node, order, order, before, body)
        self.at.scope.loops.append(loop)
        self.at.block = body
        if not isinstance(node, ast.While):
            self.expressions.target(node.target, node.iter, "for")
        self.body(node.body)
        self.at.return_to(body)
        self.at.block = before
        loop.last_order = self.at.order
        self.body(node.orelse)

    def with_(self, node: ast.With | ast.AsyncWith) -> None:
        before = self.at.block
        for item in node.items:
            self.expressions.value(item.context_expr)
            self.at.block = Block("with", item, self.at.block, order=self.at.tick())
            if item.optional_vars is not None:
                self.expressions.target(item.optional_vars, item.context_expr, "with")
        within = self.at.block
        self._within(node)
        self.at.return_to(within)
        self.at.return_to(before)

    def _within(self, node: ast.With | ast.AsyncWith) -> None:
        """The body of a `with`; of `suppress(error)` it is that of a `try` whose handler does nothing."""
        last = node.items[-1].context_expr
        if isinstance(last, ast.Call) and dotted(last.func).rpartition(".")[2] == "suppress" and last.args:
            passes = ast.copy_location(ast.Pass(), node)
            handler = ast.copy_location(ast.ExceptHandler(type=last.args[0], name=None, body=[passes]), node)
            tried = ast.Try(body=node.body, handlers=[handler], orelse=[], finalbody=[])
            self.try_(ast.copy_location(tried, node))
        else:
            self.body(node.body)

    def try_(self, node: ast.Try) -> None:
        outer, since = self.at.block, self.at.order
        body = Block("try", node, outer)
        self._inner(body, node.body)
        if node.orelse:
            self._inner(body, node.orelse)
        blocks = [body]
        for number, handler in enumerate(node.handlers):
            block = Block("except", node, outer, branch=number + 1)
            block.test, block.since = handler.type, since
            if handler.name:
                self.at.define(handler.name, Definition(self.at.tick(), block, None, "except", line=handler.lineno))
            self._inner(block, handler.body)
            if not block.fails:
                swallowed = RawExit(handler, "swallow", self.at.tick(), block, fails=False, since=since)
                self.at.scope.exits.append(swallowed)
            blocks.append(block)
        self.at.join(blocks, complete=True)
        self.body(node.finalbody)

    def return_(self, node: ast.Return) -> None:
        self.expressions.returned(node)

    def leave(self, node: ast.Break | ast.Continue | ast.Raise) -> None:
        if isinstance(node, ast.Raise):
            self.expressions.value(node.exc)
        form = {ast.Break: "break", ast.Continue: "continue", ast.Raise: "raise"}[type(node)]
        fails, block = form == "raise", self.at.block
        self.at.scope.exits.append(RawExit(node, form, self.at.tick(), block, fails, _tried(block)))
        self.at.end(form, fails=fails)

    def global_(self, node: ast.Global) -> None:
        self.at.scope.globals.update(node.names)

    def import_(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.at.scope.imports[name] = alias.name if alias.asname else name
            if "." in alias.name and not alias.asname:
                self.at.scope.modules.append(alias.name)

    def import_from(self, node: ast.ImportFrom) -> None:
        imports = self.at.scope.imports
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            if alias.name == "*":
                imports["*"] = f"{imports.get('*', '')}{base} "
            else:
                dot = "" if base.endswith(".") else "."
                imports[alias.asname or alias.name] = f"{base}{dot}{alias.name}"

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        with self.at.inside(self.expressions.function(node)):
            self.body(node.body)

    def class_(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases):
            self.expressions.value(each)
        here = self.at.scope
        scope = Scope(node, node.name, here.file, here, Block("root"))
        scope.defined_at = (self.at.tick(), self.at.block)
        here.classes[node.name] = scope
        self.at.define(node.name, Definition(self.at.order, self.at.block, None, "def", line=node.lineno))
        with self.at.inside(scope):
            self.body(node.body)


_VISITS: dict[type[ast.stmt], Callable[[_Statements, Any], None]] = {
    ast.Assign: _Statements.assign, ast.AnnAssign: _Statements.annotated, ast.AugAssign: _Statements.augmented,
    ast.Expr: _Statements.expression, ast.If: _Statements.if_, ast.For: _Statements.for_,
    ast.AsyncFor: _Statements.for_, ast.While: _Statements.while_, ast.With: _Statements.with_,
    ast.AsyncWith: _Statements.with_, ast.Try: _Statements.try_, ast.Return: _Statements.return_,
    ast.Break: _Statements.leave, ast.Continue: _Statements.leave, ast.Raise: _Statements.leave,
    ast.FunctionDef: _Statements.function, ast.AsyncFunctionDef: _Statements.function,
    ast.ClassDef: _Statements.class_, ast.Import: _Statements.import_, ast.ImportFrom: _Statements.import_from,
    ast.Global: _Statements.global_, ast.Assert: _Statements.assert_, ast.Match: _Statements.match_,
}  # fmt: skip
if hasattr(ast, "TryStar"):
    _VISITS[ast.TryStar] = _Statements.try_


def _branches(node: ast.If) -> Iterator[ast.If]:
    """An `if` and its `elif`s."""
    at = node
    yield at
    while len(at.orelse) == 1 and isinstance(at.orelse[0], ast.If) and at.orelse[0].col_offset == node.col_offset:
        at = at.orelse[0]
        yield at


def _tried(block: Block) -> int:
    """In a handler, the number before the first call of its `try`; else 0."""
    at: Block | None = block
    while at is not None and at.form not in {"except", "for", "while"}:
        at = at.parent
    return at.since if at is not None and at.form == "except" else 0

"""The part of a walk that goes over expressions: calls, conditional parts, comprehensions, lambdas, and what is assigned to."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.call_effects import record_call
from ddpdoctor.source.syntax.code_text import name_of_lambda
from ddpdoctor.source.syntax.divisions import divided, sliced
from ddpdoctor.source.syntax.recorder import Recorder
from ddpdoctor.source.syntax.scopes import Block, Definition, RawExit, RawLoop, RawStatement, Scope

_LEAVES = frozenset({ast.Name, ast.Constant}).union(
    *(kind.__subclasses__() for kind in (ast.expr_context, ast.operator, ast.boolop, ast.cmpop, ast.unaryop))
)
"""The types of nodes below which nothing is called."""
_MOST_LAMBDAS = 3  # within each other
_FEW = frozenset({0, 1, 2, 3})
"""Constant bounds of parts that are no part of the data: `sys.argv[1:]`, `shape[:2]`."""


class Expressions:
    """Walks over expressions and notes in `at` what it finds."""

    def __init__(self, at: Recorder) -> None:
        self.at = at
        self._lambdas = 0
        """How many lambdas stand around what is looked at."""

    def value(self, node: ast.expr | None) -> None:
        """Record the calls, named expressions and tests below `node`, inner calls first."""
        if node is None or type(node) in _LEAVES:
            return
        calls: list[ast.Call] = []
        pending: list[ast.AST] = [node]
        while pending:
            at = pending.pop()
            while type(at) is ast.Attribute:
                at = at.value
            if type(at) in _LEAVES:
                continue
            if type(at) is ast.Call:
                if type(at.func) is ast.Call:
                    at.func = _plain(at.func)
                calls.append(at)
                if len(at.args) > 2 and (part := sliced(at)) is not None:
                    self.at.cut(at, *part)
                pending += (at.func, *at.args)
                if at.keywords:
                    pending += [keyword.value for keyword in at.keywords]
            elif (visit := self._VISITS.get(type(at))) is not None:
                pending += visit(self, at)
            else:
                pending += ast.iter_child_nodes(at)
        for call in reversed(calls):
            record_call(call, self.at)

    def target(self, target: ast.expr, value: ast.expr | None, form: str, index: tuple[int, ...] = ()) -> None:
        """Record that `value`, or the part of it that `index` leads to, is assigned."""
        self.at.write(target, value)
        if isinstance(target, ast.Name | ast.Attribute):
            key = dotted(target)
            if key:
                given = Definition(self.at.tick(), self.at.block, value, form, index, line=target.lineno)
                given.owner = target.value if isinstance(target, ast.Attribute) else None
                self.at.define(key, given)
            elif isinstance(target, ast.Attribute) and value is not None and form == "assign" and not index:
                self.at.change(target.value, target.attr, value, target.lineno)
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpacked(target.elts, value, form, index)
        elif isinstance(target, ast.Starred):
            self.target(target.value, value, form, (*index, -1))
        elif isinstance(target, ast.Subscript):
            self._item(target, value, form, index)

    def _unpacked(self, parts: list[ast.expr], value: ast.expr | None, form: str, index: tuple[int, ...]) -> None:
        if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(parts) and form == "assign" and not index:
            for part, own in zip(parts, value.elts, strict=True):
                self.target(part, own, form)
            return
        star = next((at for at, part in enumerate(parts) if isinstance(part, ast.Starred)), len(parts))
        for number, part in enumerate(parts):
            self.target(part, value, form, (*index, number if number <= star else -1))

    def _item(self, target: ast.Subscript, value: ast.expr | None, form: str, index: tuple[int, ...]) -> None:
        self.value(target.value)
        self.value(target.slice)
        key = dotted(target.value)
        if key:
            order, block = self.at.tick(), self.at.block
            self.at.define(key, Definition(order, block, value, "change", kills=False, line=target.lineno))
            if isinstance(target.slice, ast.Constant):
                item = f"{key}[{target.slice.value!r}]"
                self.at.define(item, Definition(order, block, value, form, index, line=target.lineno))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Scope:
        """The scope of a function; its decorators and defaults, which run where it is defined, are recorded there."""
        for decorator in node.decorator_list:
            self.value(decorator)
        given = node.args
        plain = [*given.posonlyargs, *given.args]
        names = tuple(one.arg for one in (*plain, *given.kwonlyargs))
        defaults = dict(zip([one.arg for one in plain[::-1]], given.defaults[::-1], strict=False))
        defaults |= {
            one.arg: default for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default
        }
        for default in defaults.values():
            self.value(default)
        here = self.at.scope
        scope = Scope(node, node.name, here.file, here, Block("root"), names, defaults)
        scope.defined_at = (self.at.tick(), self.at.block)
        here.functions[node.name] = scope
        if node.name not in here.definitions or not here.is_class:
            self.at.define(node.name, Definition(self.at.order, self.at.block, None, "def", line=node.lineno))
        return scope

    def returned(self, node: ast.Return) -> None:
        """Record a `return`."""
        at = self.at
        self.value(node.value)
        if node.value is not None:
            at.scope.returns.append((node.value, at.order, at.block))
        at.scope.exits.append(RawExit(node, "return", at.tick(), at.block, fails=False))
        at.end("return")

    def names_a_lambda(self, targets: Sequence[ast.expr], value: ast.expr) -> bool:
        """Whether `make = lambda data: DataLoader(data)` was taken for the `def` that it stands for: it is the only one."""
        if not isinstance(value, ast.Lambda):
            return False
        name = targets[0].id if isinstance(targets[0], ast.Name) else ""
        scope = self.at.scope
        only = len(targets) == 1 and self.at.block is scope.root and name not in scope.definitions
        return only and bool(name) and self._lambda(value, name)

    def _lambda(self, node: ast.Lambda, name: str) -> bool:
        """A lambda that calls something is a function with one `return`; False where it calls nothing."""
        if self._lambdas == _MOST_LAMBDAS or not any(isinstance(each, ast.Call) for each in ast.walk(node.body)):
            return False
        gives = ast.copy_location(ast.Return(node.body), node)
        function = ast.FunctionDef(name=name, args=node.args, body=[gives], decorator_list=[])
        self._lambdas += 1
        with self.at.inside(self.function(ast.copy_location(function, node))):
            self.at.scope.statements.append(RawStatement(gives, self.at.block))
            self.returned(gives)
        self._lambdas -= 1
        return True

    def tested(self, block: Block) -> None:
        """Keep a block whose test, or a part of it, is a mere name: a function that is not called is always true."""
        if block.test is not None and any(isinstance(part, ast.Name | ast.Attribute) for part in _operands(block.test)):
            self.at.scope.tests.append(block)

    def _tested(self, node: ast.expr, test: ast.expr) -> None:
        block = Block("if", node, self.at.block, order=self.at.order)
        block.test = test
        self.tested(block)

    def _guarded(self, form: str, node: ast.expr, test: ast.expr, branch: int, part: ast.expr) -> None:
        """A part of an expression that is reached where a test lets it be."""
        if type(part) in _LEAVES:
            return
        before = self.at.block
        self.at.block = Block(form, node, before, branch=branch, order=self.at.order)
        self.at.block.test = test
        self.value(part)
        self.at.block = before

    # each of these records one kind of expression, and gives the parts that remain to be walked over

    def _either(self, node: ast.IfExp) -> Iterable[ast.AST]:
        self.value(node.test)
        self._tested(node, node.test)
        self._guarded("if", node, node.test, 0, node.body)
        self._guarded("else", node, node.test, 1, node.orelse)
        return ()

    def _not(self, node: ast.UnaryOp) -> Iterable[ast.AST]:
        if isinstance(node.op, ast.Not):
            self._tested(node, node)
        return (node.operand,)

    def _and_or(self, node: ast.BoolOp) -> Iterable[ast.AST]:
        self.value(node.values[0])
        form, branch = ("and", 0) if isinstance(node.op, ast.And) else ("or", 1)
        for part in node.values[1:]:
            self._guarded(form, node, node.values[0], branch, part)
        return ()

    def _named(self, node: ast.NamedExpr) -> Iterable[ast.AST]:
        self.value(node.value)
        self.target(node.target, node.value, "assign")
        return ()

    def _comprehension(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> Iterable[ast.AST]:
        """A comprehension is the loops that it stands for, within each other."""
        at, before = self.at, self.at.block
        loops = []
        for each in node.generators:
            self.value(each.iter)
            written = ast.copy_location(ast.For(target=each.target, iter=each.iter, body=[], orelse=[]), node)
            order = at.tick()
            loops.append(RawLoop(written, order, order, at.block, Block("for", written, at.block, order=order)))
            at.block = loops[-1].body
            self.target(each.target, each.iter, "for")
            for test in each.ifs:
                self.value(test)
                at.block = Block("if", node, at.block, order=at.order)
                at.block.test = test
            match each.iter:
                case ast.Call(func=ast.Name(id="enumerate"), args=[whole, *_]) if each.ifs:
                    at.cut(node, whole, each.ifs)
        calls = len(at.scope.calls)
        for part in (node.key, node.value) if isinstance(node, ast.DictComp) else (node.elt,):
            self.value(part)
        at.block = before
        for loop in loops if len(at.scope.calls) > calls else ():
            loop.last_order = at.order
            at.scope.loops.append(loop)
        return ()

    def _unnamed_lambda(self, node: ast.Lambda) -> Iterable[ast.AST]:
        self._lambda(node, name_of_lambda(node))
        return ()

    def _part(self, node: ast.Subscript) -> Iterable[ast.AST]:
        if isinstance(node.slice, ast.Slice):
            bounds = [part for part in (node.slice.lower, node.slice.upper, node.slice.step) if part is not None]
            if any(not isinstance(part, ast.Constant) or part.value not in _FEW for part in bounds):
                self.at.cut(node, node.value, bounds)
        elif (division := divided(node, self.at.scope)) is not None:
            whole, by = division
            self.at.cut(node, whole, (node.slice, by))
        return node.value, node.slice

    def _both(self, node: ast.BinOp) -> Iterable[ast.AST]:
        return node.left, node.right

    def _compared(self, node: ast.Compare) -> Iterable[ast.AST]:
        return node.left, *node.comparators

    def _yield(self, node: ast.Yield | ast.YieldFrom) -> Iterable[ast.AST]:
        scope = self.at.scope
        scope.generator = True
        scope.yielding.append(self.at.block)
        if isinstance(node, ast.Yield) and node.value is not None:
            scope.yields.append((node.value, self.at.order, self.at.block))
        return ast.iter_child_nodes(node)

    _VISITS: ClassVar[Mapping[type[ast.AST], Callable[[Expressions, Any], Iterable[ast.AST]]]] = {
        ast.IfExp: _either, ast.UnaryOp: _not, ast.BoolOp: _and_or, ast.NamedExpr: _named,
        ast.ListComp: _comprehension, ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension, ast.DictComp: _comprehension,
        ast.Lambda: _unnamed_lambda, ast.Subscript: _part, ast.BinOp: _both, ast.Compare: _compared,
        ast.Yield: _yield, ast.YieldFrom: _yield,
    }  # fmt: skip


def _plain(function: ast.Call) -> ast.expr:
    """`self.step` of `getattr(self, "step")`, which is called; any other call as it is."""
    match function:
        case ast.Call(func=ast.Name(id="getattr"), args=[owner, ast.Constant(value=str(name))], keywords=[]):
            if name.isidentifier() and dotted(owner):
                return ast.copy_location(ast.Attribute(owner, name, ast.Load()), function)
    return function


def _operands(test: ast.expr) -> Iterator[ast.expr]:
    """What a test consists of between `and`, `or` and `not`."""
    if isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _operands(part)
    elif isinstance(test, ast.UnaryOp):
        yield from _operands(test.operand)
    else:
        yield test

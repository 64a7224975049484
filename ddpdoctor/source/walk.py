"""One walk over a parsed module, without judgement: every function with its blocks, assignments, calls, loops and exits."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence

from ddpdoctor.source.divisions import divided
from ddpdoctor.source.match_cases import as_comparison
from ddpdoctor.source.scopes import Block, Definition, RawCall, RawChange, RawCut, RawExit, RawLoop, RawStatement, Scope

_LEAVES = (ast.Name, ast.Constant, ast.expr_context, ast.operator, ast.boolop, ast.cmpop, ast.unaryop)
_CHANGES_ITS_OBJECT = frozenset({"append", "extend", "update", "add", "insert", "add_", "copy_", "step", "put"})
_ADDS = frozenset({"append", "insert"})
"""Methods of a list of layers that put one more into it."""
_MOST_ENTERED = (
    20  # contexts of one block that `enter_context` opens: generated code has thousands, each within the last
)
_MOST_LAMBDAS = 3  # within each other
SHUFFLES = frozenset({"random.shuffle", "np.random.shuffle", "numpy.random.shuffle"})


def walk(tree: ast.Module, file: str) -> list[Scope]:
    """Every scope of a module, the module itself first."""
    walker = _Walker(file)
    walker.module(tree)
    walker.statements.clear()  # its own methods: a ring that only the collector would free
    return walker.scopes


def dotted(node: ast.expr) -> str:
    """`a.b.c` of names and attributes alone, else an empty string; kept at the node, as it is asked for often."""
    known: str | None = node.__dict__.get("dotted_name")
    if known is None:
        known = node.__dict__["dotted_name"] = _dotted(node)
    return known


def _dotted(node: ast.expr) -> str:
    parts: list[str] = []
    at = node
    while isinstance(at, ast.Attribute):
        parts.append(at.attr)
        at = at.value
    if not isinstance(at, ast.Name):
        return ""
    parts.append(at.id)
    return ".".join(reversed(parts))


def written_path(node: ast.expr) -> str:
    """`net.module[0].head` of names, attributes and plain subscripts, else an empty string."""
    parts: list[str] = []
    at = node
    while isinstance(at, ast.Attribute | ast.Subscript):
        if isinstance(at, ast.Attribute):
            parts.append(f".{at.attr}")
        elif isinstance(at.slice, ast.Constant | ast.Name | ast.UnaryOp):
            parts.append(f"[{ast.unparse(at.slice)}]")
        else:
            return ""
        at = at.value
    return "".join((at.id, *reversed(parts))) if isinstance(at, ast.Name) else ""


class _Walker:
    def __init__(self, file: str) -> None:
        self.file = file
        self.scopes: list[Scope] = []
        self.scope: Scope
        self.block: Block
        self.order = 0
        self.lambdas = 0
        """How many lambdas stand around what is looked at."""
        self.entered: dict[Block, str] = {}
        """By the block of a context that `enter_context` opened, the name of its stack."""
        self.statements: dict[type[ast.stmt], Callable[..., None]] = {
            ast.Assign: self.assign, ast.AnnAssign: self.annotated, ast.AugAssign: self.augmented,
            ast.Expr: self.expression, ast.If: self.if_, ast.For: self.for_, ast.AsyncFor: self.for_,
            ast.While: self.while_, ast.With: self.with_, ast.AsyncWith: self.with_, ast.Try: self.try_,
            ast.Return: self.return_, ast.Break: self.leave, ast.Continue: self.leave, ast.Raise: self.leave,
            ast.FunctionDef: self.function, ast.AsyncFunctionDef: self.function, ast.ClassDef: self.class_,
            ast.Import: self.import_, ast.ImportFrom: self.import_from, ast.Global: self.global_,
            ast.Assert: self.assert_, ast.Match: self.match_,
        }  # fmt: skip
        if hasattr(ast, "TryStar"):
            self.statements[ast.TryStar] = self.try_

    def module(self, tree: ast.Module) -> None:
        self._enter(Scope(tree, "<module>", self.file, None, Block("root")))
        self.body(tree.body)
        self.scope.last_order = self.order

    def _enter(self, scope: Scope) -> None:
        self.scopes.append(scope)
        self.scope, self.block, self.order = scope, scope.root, 0

    def _tick(self) -> int:
        self.order += 1
        return self.order

    def body(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            self.scope.statements.append(RawStatement(statement, self.block))
            visit = self.statements.get(type(statement))
            if visit is not None:
                visit(statement)

    def inner(self, block: Block, statements: list[ast.stmt]) -> None:
        before, self.block = self.block, block
        block.order = self._tick()
        self.body(statements)
        self._leave_contexts(block)
        self.block = before

    def _leave_contexts(self, block: Block) -> None:
        """Back to a block whose end is that of the contexts which `enter_context` has opened in it."""
        ended, fails = self.block.ends, self.block.fails
        self.block = block
        if ended:
            self._end(ended, fails=fails)

    def _enter_context(self, node: ast.expr | None) -> None:
        """`stack.enter_context(manager)` is a `with` over what follows in the same block, until `stack.close()`."""
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return
        if node.func.attr == "close" and dotted(node.func.value) in self.entered.values():
            self._close(dotted(node.func.value))
        if node.func.attr != "enter_context" or sum(1 for _ in self._open_stacks()) >= _MOST_ENTERED:
            return
        for manager in node.args[:1]:
            item = ast.withitem(context_expr=manager)
            self.block = Block("with", item, self.block, order=self._tick())
            self.entered[self.block] = dotted(node.func.value)

    def _open_stacks(self) -> Iterator[Block]:
        """The innermost contexts that `enter_context` opened, up to the block that they stand in."""
        at = self.block
        while at in self.entered and at.parent is not None:
            yield at
            at = at.parent

    def _close(self, stack: str) -> None:
        """Leave the contexts of a stack, where no other stack has opened one within them."""
        for block in list(self._open_stacks()):
            if self.entered[block] != stack or block.parent is None:
                break
            self._leave_contexts(block.parent)

    # expressions

    def value(self, node: ast.expr | None) -> None:
        """Record the calls, named expressions and tests below `node`, inner calls first."""
        if node is None or isinstance(node, _LEAVES):
            return
        calls: list[ast.Call] = []
        pending: list[ast.AST] = [node]
        while pending:
            at = pending.pop()
            kind = type(at)
            if kind is ast.Call:
                if type(at.func) is ast.Call:  # type: ignore[attr-defined]
                    at.func = _plain(at.func)  # type: ignore[attr-defined]
                calls.append(at)  # type: ignore[arg-type]
                pending.append(at.func)  # type: ignore[attr-defined]
                pending += [argument for argument in at.args if type(argument) not in _LEAVES]  # type: ignore[attr-defined]
                pending += [keyword.value for keyword in at.keywords]  # type: ignore[attr-defined]
            elif kind is ast.Attribute:
                pending.append(at.value)  # type: ignore[attr-defined]
            elif kind is ast.Name or kind is ast.Constant:
                continue
            elif kind is ast.BoolOp or kind is ast.IfExp:
                self._choice(at)  # type: ignore[arg-type]
            elif kind is ast.NamedExpr:
                self.value(at.value)  # type: ignore[attr-defined]
                self.target(at.target, at.value, "assign")  # type: ignore[attr-defined]
            elif kind in {ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp}:
                self._comprehension(at)
            elif kind is ast.Lambda:
                self._lambda(at, f"<lambda {at.lineno}:{at.col_offset}>")  # type: ignore[arg-type, attr-defined]
            elif kind is ast.Subscript:
                pending.append(at.value)  # type: ignore[attr-defined]
                pending.append(at.slice)  # type: ignore[attr-defined]
                if isinstance(at.slice, ast.Slice):  # type: ignore[attr-defined]
                    self._cut(at)  # type: ignore[arg-type]
                elif (division := divided(at, self.scope)) is not None:  # type: ignore[arg-type]
                    whole, by = division
                    self.scope.cuts.append(RawCut(at, whole, (at.slice, by), self._tick(), self.block))  # type: ignore[arg-type, attr-defined]
            elif kind is ast.Yield or kind is ast.YieldFrom:
                self.scope.generator = True
                self.scope.yielding.append(self.block)
                if kind is ast.Yield and at.value is not None:  # type: ignore[attr-defined]
                    self.scope.yields.append((at.value, self.order, self.block))  # type: ignore[attr-defined]
                pending.extend(ast.iter_child_nodes(at))
            else:
                pending.extend(ast.iter_child_nodes(at))
        for call in reversed(calls):
            self._call(call)

    def _cut(self, node: ast.Subscript) -> None:
        assert isinstance(node.slice, ast.Slice)
        bounds = tuple(part for part in (node.slice.lower, node.slice.upper, node.slice.step) if part is not None)
        if any(not isinstance(part, ast.Constant) for part in bounds):
            self.scope.cuts.append(RawCut(node, node.value, bounds, self._tick(), self.block))

    def _call(self, call: ast.Call) -> None:
        order = self._tick()
        name = dotted(call.func)
        owner, _, method = name.rpartition(".")
        self.scope.calls.append(RawCall(call, order, self.block, name, method))
        if name in {"sys.exit", "exit", "quit", "os._exit"}:
            given = call.args[0] if call.args else None
            fails = given is not None and not (isinstance(given, ast.Constant) and given.value in {0, None})
            self.scope.exits.append(RawExit(call, "exit", order, self.block, fails))
            self._end("exit", fails=fails)
        if method == "fully_shard" and call.args and dotted(call.args[0]):
            self.define(dotted(call.args[0]), Definition(order, self.block, call, "assign", line=call.lineno))
        if method == "update" and owner:
            for one in call.keywords:
                if one.arg is not None:
                    set_to = Definition(self._tick(), self.block, one.value, "assign", line=one.value.lineno)
                    self.define(f"{owner}[{one.arg!r}]", set_to)
        if name in SHUFFLES and call.args and dotted(call.args[0]):
            self.define(
                dotted(call.args[0]), Definition(order, self.block, call, "change", kills=False, line=call.lineno)
            )
        if method == "update" and owner and call.args and isinstance(call.args[0], ast.Dict):
            for key, value in zip(call.args[0].keys, call.args[0].values, strict=True):
                if isinstance(key, ast.Constant):
                    set_to = Definition(self._tick(), self.block, value, "assign", line=key.lineno)
                    self.define(f"{owner}[{key.value!r}]", set_to)
        self._set_by_name(call, name, method, owner, order)
        if owner and method == "sort":
            assert isinstance(call.func, ast.Attribute)
            self.define(owner, Definition(order, self.block, call.func.value, "sorted", kills=False, line=call.lineno))
        if isinstance(call.func, ast.Attribute) and call.func.attr == "requires_grad_":
            switched = call.args[0] if call.args else ast.copy_location(ast.Constant(value=True), call)
            if owner:
                to = Definition(order, self.block, switched, "assign", line=call.lineno)
                self.define(f"{owner}.requires_grad", to)
            else:
                self._change(call.func.value, "requires_grad", switched, call.lineno)
        if owner and method in _CHANGES_ITS_OBJECT and (call.args or call.keywords):
            given = call.args[0] if call.args else None
            self.define(owner, Definition(order, self.block, given, "change", kills=False, line=call.lineno))

    def _set_by_name(self, call: ast.Call, name: str, method: str, owner: str, order: int) -> None:
        """`setattr(model, "head", layer)` and `model.add_module("head", layer)` assign to `model.head`."""
        given = call.args
        at: ast.expr | None = call.func.value if isinstance(call.func, ast.Attribute) else None
        if name == "setattr" and len(given) == 3:
            at, owner, given = given[0], dotted(given[0]), given[1:]
        elif method in _ADDS and at is not None and not isinstance(at, ast.Name) and given:
            self._change(at, "", given[-1], call.lineno)
            return
        elif method not in {"add_module", "register_module"} or len(given) != 2:
            return
        if at is not None and not (owner and isinstance(given[0], ast.Constant)):
            self._change(at, "*", given[1], call.lineno)
        if owner and isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
            self.define(
                f"{owner}.{given[0].value}", Definition(order, self.block, given[1], "assign", line=call.lineno)
            )

    def _change(self, owner: ast.expr, attribute: str, value: ast.expr, line: int) -> None:
        """Note that a part of an object changes; of its container, that one more comes in, where there is no attribute."""
        path = written_path(owner)
        if path:
            key = f"{path}.{attribute}" if attribute else path
            change = RawChange(key, owner, value, self._tick(), self.block, line, adds=not attribute)
            self.scope.changes.append(change)

    def _choice(self, node: ast.BoolOp | ast.IfExp) -> None:
        if isinstance(node, ast.IfExp):
            self.value(node.test)
            for branch, (form, part) in enumerate((("if", node.body), ("else", node.orelse))):
                self._guarded(form, node, node.test, branch, part)
            return
        self.value(node.values[0])
        form = "and" if isinstance(node.op, ast.And) else "or"
        for part in node.values[1:]:
            self._guarded(form, node, node.values[0], 0 if form == "and" else 1, part)

    def _guarded(self, form: str, node: ast.expr, test: ast.expr, branch: int, part: ast.expr) -> None:
        if isinstance(part, _LEAVES):
            return
        before = self.block
        self.block = Block(form, node, before, branch=branch, order=self.order)
        self.block.test = test
        self.value(part)
        self.block = before

    def _comprehension(self, node: ast.AST) -> None:
        generators: list[ast.comprehension] = node.generators  # type: ignore[attr-defined]
        for each in generators:
            self.value(each.iter)
            self.target(each.target, each.iter, "for")
            for test in each.ifs:
                self.value(test)
            if (
                each.ifs
                and isinstance(each.iter, ast.Call)
                and dotted(each.iter.func) == "enumerate"
                and each.iter.args
            ):
                whole = each.iter.args[0]
                self.scope.cuts.append(RawCut(node, whole, tuple(each.ifs), self._tick(), self.block))  # type: ignore[arg-type]
        for part in ("elt", "key", "value"):
            self.value(getattr(node, part, None))

    # statements

    def define(self, key: str, definition: Definition) -> None:
        self.scope.definitions.setdefault(key, []).append(definition)

    def target(self, target: ast.expr, value: ast.expr | None, form: str, index: tuple[int, ...] = ()) -> None:
        if isinstance(target, ast.Name | ast.Attribute):
            key = dotted(target)
            if key:
                given = Definition(self._tick(), self.block, value, form, index, line=target.lineno)
                given.owner = target.value if isinstance(target, ast.Attribute) else None
                self.define(key, given)
            elif isinstance(target, ast.Attribute) and value is not None and form == "assign" and not index:
                self._change(target.value, target.attr, value, target.lineno)
        elif isinstance(target, ast.Tuple | ast.List):
            together = (
                isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts) and form == "assign"
            )
            star = next((at for at, part in enumerate(target.elts) if isinstance(part, ast.Starred)), len(target.elts))
            for number, part in enumerate(target.elts):
                if together and not index:
                    self.target(part, value.elts[number], form)  # type: ignore[union-attr]
                else:
                    self.target(part, value, form, (*index, number if number <= star else -1))
        elif isinstance(target, ast.Starred):
            self.target(target.value, value, form, (*index, -1))
        elif isinstance(target, ast.Subscript):
            self.value(target.value)
            self.value(target.slice)
            key = dotted(target.value)
            if key:
                order = self._tick()
                self.define(key, Definition(order, self.block, value, "change", kills=False, line=target.lineno))
                if isinstance(target.slice, ast.Constant):
                    item = f"{key}[{target.slice.value!r}]"
                    self.define(item, Definition(order, self.block, value, form, index, line=target.lineno))

    def assign(self, node: ast.Assign) -> None:
        if self._names_a_lambda(node.targets, node.value):
            return
        self.value(node.value)
        for target in node.targets:
            self.target(target, node.value, "assign")
        self._enter_context(node.value)

    def annotated(self, node: ast.AnnAssign) -> None:
        if node.value is not None and self._names_a_lambda([node.target], node.value):
            return
        self.value(node.value)
        if isinstance(node.target, ast.Name):
            self.scope.fields.append(node.target.id)
        if node.value is not None:
            self.target(node.target, node.value, "assign")

    def augmented(self, node: ast.AugAssign) -> None:
        self.value(node.value)
        key = dotted(node.target.value if isinstance(node.target, ast.Subscript) else node.target)
        if key:
            joined = Definition(
                self._tick(),
                self.block,
                node.value,
                "augment",
                kills=False,
                line=node.lineno,
                operator=type(node.op).__name__,
            )
            self.define(key, joined)

    def expression(self, node: ast.Expr) -> None:
        self.value(node.value)
        self._enter_context(node.value)

    def assert_(self, node: ast.Assert) -> None:
        self.value(node.test)

    def if_(self, node: ast.If) -> None:
        """An `if` with all its `elif`s is one statement with several branches."""
        outer, at, branch = self.block, node, 0
        blocks: list[Block] = []
        while True:
            self.value(at.test)
            block = Block("if", node, outer, branch=branch)
            block.test = at.test
            if any(isinstance(part, ast.Name | ast.Attribute) for part in _operands(at.test)):
                self.scope.tests.append(block)
            blocks.append(block)
            self.inner(block, at.body)
            branch += 1
            follows = at.orelse
            if len(follows) == 1 and isinstance(follows[0], ast.If) and follows[0].col_offset == node.col_offset:
                at = follows[0]
                continue
            break
        last = Block("else", node, outer, branch=branch)
        last.test = at.test
        if at.orelse:
            self.inner(last, at.orelse)
            blocks.append(last)
        self._join(blocks, complete=bool(at.orelse))

    def _join(self, blocks: list[Block], *, complete: bool) -> None:
        """After a statement with alternatives: those that have left are remembered; if all have, so has the block."""
        for block in blocks:
            block.branches = len(blocks) if complete else 0
            if block.ends:
                self.block.ended.append((self.order, block))
        if complete and blocks and all(block.ends for block in blocks):
            kinds = {block.ends for block in blocks}
            self._end(kinds.pop() if len(kinds) == 1 else "return", fails=all(block.fails for block in blocks))

    def _end(self, form: str, *, fails: bool = False) -> None:
        if not self.block.ends:
            self.block.ends, self.block.fails = form, fails

    def match_(self, node: ast.Match) -> None:
        self.value(node.subject)
        outer, blocks, complete = self.block, [], False
        for branch, case in enumerate(node.cases):
            block = Block("case", node, outer, branch=branch)
            block.test = as_comparison(node, branch)
            complete = complete or (isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None)
            blocks.append(block)
            self.inner(block, case.body)
        self._join(blocks, complete=complete)

    def for_(self, node: ast.For | ast.AsyncFor) -> None:
        self.value(node.iter)
        self._loop(node, node.target)

    def while_(self, node: ast.While) -> None:
        self.value(node.test)
        self._loop(node, None)

    def _loop(self, node: ast.For | ast.AsyncFor | ast.While, target: ast.expr | None) -> None:
        order = self._tick()
        body = Block("while" if isinstance(node, ast.While) else "for", node, self.block)
        loop = RawLoop(node, order, order, self.block, body)
        self.scope.loops.append(loop)
        before, self.block = self.block, body
        body.order = order
        if target is not None:
            self.target(target, node.iter, "for")  # type: ignore[union-attr]
        self.body(node.body)
        self._leave_contexts(body)
        self.block = before
        loop.last_order = self.order
        if node.orelse:
            self.body(node.orelse)

    def with_(self, node: ast.With | ast.AsyncWith) -> None:
        before = self.block
        for item in node.items:
            self.value(item.context_expr)
            self.block = Block("with", item, self.block, order=self._tick())
            if item.optional_vars is not None:
                self.target(item.optional_vars, item.context_expr, "with")
        within = self.block
        self._within(node)
        self._leave_contexts(within)
        ended, fails = self.block.ends, self.block.fails
        self.block = before
        if ended:
            self._end(ended, fails=fails)

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
        outer, since = self.block, self.order
        body = Block("try", node, outer)
        self.inner(body, node.body)
        if node.orelse:
            self.inner(body, node.orelse)
        blocks = [body]
        for number, handler in enumerate(node.handlers):
            block = Block("except", node, outer, branch=number + 1)
            block.test, block.since = handler.type, since
            if handler.name:
                self.scope.definitions.setdefault(handler.name, []).append(
                    Definition(self._tick(), block, None, "except", line=handler.lineno)
                )
            self.inner(block, handler.body)
            if not block.fails:
                self.scope.exits.append(RawExit(handler, "swallow", self._tick(), block, fails=False, since=since))
            blocks.append(block)
        self._join(blocks, complete=True)
        self.body(node.finalbody)

    def return_(self, node: ast.Return) -> None:
        self.value(node.value)
        if node.value is not None:
            self.scope.returns.append((node.value, self.order, self.block))
        self.scope.exits.append(RawExit(node, "return", self._tick(), self.block, fails=False))
        self._end("return")

    def leave(self, node: ast.Break | ast.Continue | ast.Raise) -> None:
        if isinstance(node, ast.Raise):
            self.value(node.exc)
        form = {ast.Break: "break", ast.Continue: "continue", ast.Raise: "raise"}[type(node)]
        fails = form == "raise"
        self.scope.exits.append(RawExit(node, form, self._tick(), self.block, fails, self._tried(self.block)))
        self._end(form, fails=fails)

    @staticmethod
    def _tried(block: Block) -> int:
        """In a handler, the number before the first call of its `try`; else 0."""
        at: Block | None = block
        while at is not None and at.form not in {"except", "for", "while"}:
            at = at.parent
        return at.since if at is not None and at.form == "except" else 0

    def global_(self, node: ast.Global) -> None:
        self.scope.globals.update(node.names)

    def import_(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            self.scope.imports[name] = alias.name if alias.asname else name

    def import_from(self, node: ast.ImportFrom) -> None:
        base = "." * node.level + (node.module or "")
        for alias in node.names:
            joined = f"{base}{alias.name}" if base.endswith(".") else f"{base}.{alias.name}"
            if alias.name == "*":
                self.scope.imports.setdefault("*", "")
                self.scope.imports["*"] += f"{base} "
            else:
                self.scope.imports[alias.asname or alias.name] = joined

    # scopes inside

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for decorator in node.decorator_list:
            self.value(decorator)
        given = node.args
        plain = [*given.posonlyargs, *given.args]
        names = [*plain, *given.kwonlyargs]
        defaults = dict(zip([one.arg for one in plain[::-1]], given.defaults[::-1], strict=False))
        defaults |= {
            one.arg: default for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True) if default
        }
        for default in defaults.values():
            self.value(default)
        scope = Scope(node, node.name, self.file, self.scope, Block("root"), tuple(one.arg for one in names), defaults)
        scope.defined_at = (self._tick(), self.block)
        self.scope.functions[node.name] = scope
        if node.name not in self.scope.definitions or not self.scope.is_class:
            here = Definition(self.order, self.block, None, "def", line=node.lineno)
            self.define(node.name, here)
        self._scope(scope, node.body)

    def _names_a_lambda(self, targets: Sequence[ast.expr], value: ast.expr) -> bool:
        """Whether `make = lambda data: DataLoader(data)` was taken for the `def` that it stands for: it is the only one."""
        name = targets[0].id if isinstance(targets[0], ast.Name) else ""
        only = len(targets) == 1 and self.block is self.scope.root and name not in self.scope.definitions
        return only and isinstance(value, ast.Lambda) and bool(name) and self._lambda(value, name)

    def _lambda(self, node: ast.Lambda, name: str) -> bool:
        """A lambda that calls something is a function with one `return`; False where it calls nothing."""
        if self.lambdas == _MOST_LAMBDAS or not any(isinstance(each, ast.Call) for each in ast.walk(node.body)):
            return False
        gives = ast.copy_location(ast.Return(node.body), node)
        function = ast.FunctionDef(name=name, args=node.args, body=[gives], decorator_list=[])
        self.lambdas += 1
        self.function(ast.copy_location(function, node))
        self.lambdas -= 1
        return True

    def class_(self, node: ast.ClassDef) -> None:
        for each in (*node.decorator_list, *node.bases):
            self.value(each)
        scope = Scope(node, node.name, self.file, self.scope, Block("root"))
        scope.defined_at = (self._tick(), self.block)
        self.scope.classes[node.name] = scope
        self.define(node.name, Definition(self.order, self.block, None, "def", line=node.lineno))
        self._scope(scope, node.body)

    def _scope(self, scope: Scope, statements: list[ast.stmt]) -> None:
        outer, block, order = self.scope, self.block, self.order
        self._enter(scope)
        self.body(statements)
        scope.last_order = self.order
        self.scope, self.block, self.order = outer, block, order


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


def parts(node: ast.AST) -> Iterator[str]:
    """The names and dotted names in an expression."""
    pending: list[ast.AST] = [node]
    while pending:
        at = pending.pop()
        if isinstance(at, ast.Name | ast.Attribute):
            key = dotted(at)
            if key:
                yield key
                continue
        pending.extend(ast.iter_child_nodes(at))

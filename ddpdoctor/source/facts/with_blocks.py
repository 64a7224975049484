"""The `with` blocks around a place of a function: what each makes, by its name or under the name of a variable."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from ddpdoctor.evidence.code_values import Value
from ddpdoctor.evidence.training_code import Context
from ddpdoctor.source.dataflow.origins import At
from ddpdoctor.source.dataflow.values import Values
from ddpdoctor.source.facts.guards import line_of, value_of
from ddpdoctor.source.facts.settled_tests import settled
from ddpdoctor.source.names import rank_names
from ddpdoctor.source.names.dotted_names import dotted
from ddpdoctor.source.syntax.scopes import Block, Scope

_OF_FABRIC = ".no_backward_sync"
"""`fabric.no_backward_sync(model, enabled=...)`: what `no_sync` is of a wrapper."""


@dataclass(eq=False)
class WithBlocks:
    """Makes the facts about `with` blocks, once for each block and calling context."""

    values: Values
    """Tells what a `with` enters."""
    _made: dict[tuple[int, int], Context] = field(default_factory=dict)
    _around: dict[tuple[int, int], tuple[Context, ...]] = field(default_factory=dict)
    _managers: dict[str, Scope] = field(default_factory=dict)
    """The generators of the program with one `yield` that blocks enter, by their ids."""
    _written: dict[int, ast.Call] = field(default_factory=dict)
    """Calls of what a name stands for, by the identity of the calls as they are written."""

    def around(self, block: Block, scope: Scope) -> tuple[Context, ...]:
        """The `with` blocks around a block, outermost first."""
        key = (id(block), id(self.values.context_in(scope)))
        if key not in self._around:
            entered = (self._entered(at, scope) for at in block.chain() if at.form == "with")
            self._around[key] = tuple(context for each in entered for context in each)
        return self._around[key]

    def _entered(self, block: Block, scope: Scope) -> tuple[Context, ...]:
        """What a `with` block enters: of a context manager that the program has written, also the blocks around its `yield`."""
        context = self._of(block, scope)
        manager = self._managers.get(context.target)
        if manager is None or not context.plain or scope is manager:
            return (context,)
        del self._managers[context.target]  # while it is looked at: managers may enter each other in a ring
        inside = [replace(each, line=context.line) for each in self.around(manager.yielding[0], manager)]
        self._managers[context.target] = manager
        return context, *inside

    def _of(self, block: Block, scope: Scope) -> Context:
        key = (id(block), id(self.values.context_in(scope)))
        if key not in self._made:
            item = block.node
            assert isinstance(item, ast.withitem)
            name, receiver, target = "", Value(), ""
            node, at, plain = self._under_a_name(item.context_expr, block, scope)
            node, at = self._given_back(self._decided(node, scope), at)
            if isinstance(node, ast.Call):
                what = self.values.meaning(node, at)
                name = what.name
                target = what.target.id if what.target is not None else ""
                if what.target is not None and len(what.target.yielding) == 1:
                    self._managers[target] = what.target
                owner = node.func.value if isinstance(node.func, ast.Attribute) and name.startswith(".") else None
                if name.endswith(_OF_FABRIC):
                    name, plain, owner = ".no_sync", plain and _is_on(node), node.args[0] if node.args else None
                receiver = value_of(self.values, owner, at) if owner is not None else Value()
            else:
                plain = False
            _, line = line_of(self.values, scope, item.context_expr.lineno)
            self._made[key] = Context(
                name=name,
                text=self.values.text(item.context_expr, scope),
                line=line,
                value=receiver,
                plain=plain,
                target=target,
            )
        return self._made[key]

    def _decided(self, node: ast.expr, scope: Scope) -> ast.expr:
        """The part of `a if test else b` that is entered, where the test always goes one way, or asks for a setting."""
        if isinstance(node, ast.IfExp) and (way := settled(node.test, scope)) is not None:
            node = node.body if way else node.orelse
        if isinstance(node, ast.IfExp) and (_is_state(node.test) or self._is_setting(node.test, scope)):
            return next((one for one in (node.body, node.orelse) if not _does_nothing(one)), node)
        return node

    def _under_a_name(self, node: ast.expr, block: Block, scope: Scope) -> tuple[ast.expr, At, bool]:
        """What is entered under a name, `quiet` or `quiet()`, where it is assigned; and whether it is always that."""
        at = At(scope, block.order, block.parent or block)
        key = dotted(node)
        assigned = [one for one in scope.definitions.get(key, []) if one.order < block.order] if key else []
        if key:
            plain = (
                len(assigned) == 1
                and isinstance(assigned[0].value, ast.Call | ast.IfExp)
                and assigned[0].block is block.parent
            )
            return (assigned[0].value if plain and assigned[0].value is not None else node), at, plain
        asked = node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""
        given = scope.definitions.get(asked, [])
        if len(given) != 1 or given[0].block not in block.chain() or given[0].value is None:
            return node, at, True
        assert isinstance(node, ast.Call)
        called = self._decided(given[0].value, scope)
        if not isinstance(called, ast.Attribute):
            return node, at, True
        made = self._written.setdefault(id(node), ast.copy_location(ast.Call(called, node.args, node.keywords), node))
        return made, At(scope, given[0].order, given[0].block), True

    def _given_back(self, node: ast.expr, at: At) -> tuple[ast.expr, At]:
        """The call by which a helper makes what it always gives back to be entered, and where; else the expression itself."""
        target = self.values.meaning(node, at).target if isinstance(node, ast.Call) else None
        if target is None or target.is_class or target.generator or not 0 < len(target.returns) < 3:
            return node, at
        value, order, block = target.returns[0]
        if len(target.returns) == 2:
            otherwise = target.returns[1]
            if block.form != "if" or block.test is None or block.parent is not target.root:
                return node, at
            value = self._decided(ast.copy_location(ast.IfExp(block.test, value, otherwise[0]), value), target)
            order, block = (order, block) if value is target.returns[0][0] else otherwise[1:]
        made = self._decided(value, target) if isinstance(value, ast.Call | ast.IfExp) else None
        return (made, At(target, order + 1, block)) if isinstance(made, ast.Call) else (node, at)

    def _is_setting(self, test: ast.expr, scope: Scope) -> bool:
        """Whether a test asks whether a number that nothing changes later is above one, or is not: `accumulation_steps > 1`."""
        match test:
            case ast.Compare(
                left=left, ops=[ast.Gt() | ast.NotEq() | ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=1)]
            ):
                key = dotted(left)
            case _:
                return False
        owner, _, attribute = key.rpartition(".")
        if owner == "self" and scope.of_class is not None:
            table = self.values.index.attributes.get((id(scope.of_class), attribute), ())
            made = bool(table) and all(one.name == "__init__" and given.form == "assign" for one, given, _ in table)
            if made and not self.values.code.assigned_outside(scope.of_class, attribute):
                return True
        words = key.lower()
        given = scope.definitions.get(key, ())
        named = "accum" in words and not any(word in words for word in ("count", "idx", "index"))
        return named and all(one.form == "assign" and one.block is scope.root for one in given)


def _does_nothing(node: ast.expr) -> bool:
    """Whether a context is `nullcontext()`, or what makes it, or one of the names that people use in its place."""
    name = dotted(node.func if isinstance(node, ast.Call) else node)
    return name.rpartition(".")[2] in {"nullcontext", "suppress", "ExitStack"}


def _is_on(node: ast.Call) -> bool:
    """Whether nothing but `True` is given for `enabled`, by name or behind the module."""
    given = [*node.args[1:], *(one.value for one in node.keywords if one.arg == "enabled")]
    return all(isinstance(one, ast.Constant) and one.value is True for one in given)


def _is_state(test: ast.expr) -> bool:
    """Whether a test asks whether there are several ranks, and nothing else."""
    if isinstance(test, ast.UnaryOp):
        return _is_state(test.operand)
    asked = test.func if isinstance(test, ast.Call) else test
    name = dotted(asked).rpartition(".")[2].lower()
    return bool(name) and any(word in name for word in rank_names.STATE_WORDS)

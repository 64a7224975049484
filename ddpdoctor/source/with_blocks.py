"""The `with` blocks around a place of a function: what each makes, by its name or under the name of a variable."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from ddpdoctor.evidence.code_values import Value
from ddpdoctor.evidence.training_code import Context
from ddpdoctor.source import rank_names
from ddpdoctor.source.call_meanings import meaning
from ddpdoctor.source.dotted_names import dotted
from ddpdoctor.source.guards import line_of, value_of
from ddpdoctor.source.origins import At
from ddpdoctor.source.scopes import Block, Scope
from ddpdoctor.source.settled_tests import settled
from ddpdoctor.source.values import Values

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
            node, plain = item.context_expr, True
            at = At(scope, block.order, block.parent or block)
            if isinstance(node, ast.Name | ast.Attribute):
                assigned = scope.definitions.get(dotted(node), [])
                before = [definition for definition in assigned if definition.order < block.order]
                plain = (
                    len(before) == 1
                    and isinstance(before[0].value, ast.Call | ast.IfExp)
                    and before[0].block is block.parent
                )
                node = before[0].value if plain and before[0].value is not None else node
            name, receiver, target = "", Value(), ""
            if isinstance(node, ast.IfExp) and (way := settled(node.test, scope)) is not None:
                node = node.body if way else node.orelse
            if isinstance(node, ast.IfExp) and (_is_state(node.test) or _is_setting(node.test, scope)):
                node = next((one for one in (node.body, node.orelse) if not _does_nothing(one)), node)
            if isinstance(node, ast.Call):
                what = meaning(self.values, node, at)
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


def _does_nothing(node: ast.expr) -> bool:
    """Whether a context is `nullcontext()` or one of the names that people use in its place."""
    name = dotted(node.func) if isinstance(node, ast.Call) else ""
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


def _is_setting(test: ast.expr, scope: Scope) -> bool:
    """Whether a test asks whether a number that the function never changes is above one: `accumulation_steps > 1`."""
    match test:
        case ast.Compare(left=left, ops=[ast.Gt() | ast.NotEq()], comparators=[ast.Constant(value=1)]):
            key = dotted(left)
        case _:
            return False
    words = key.lower()
    given = scope.definitions.get(key, ())
    named = "accum" in words and not any(word in words for word in ("count", "idx", "index"))
    return named and all(one.form == "assign" and one.block is scope.root for one in given)

"""The `with` blocks around a place of a function: what each makes, by its name or under the name of a variable."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field

from ddpdoctor.evidence.code_values import Value
from ddpdoctor.evidence.training_code import Context
from ddpdoctor.source import torch_names as names
from ddpdoctor.source.call_meanings import meaning
from ddpdoctor.source.dotted_names import dotted
from ddpdoctor.source.guards import line_of, value_of
from ddpdoctor.source.origins import At
from ddpdoctor.source.scopes import Block, Scope
from ddpdoctor.source.values import Values


@dataclass(eq=False)
class WithBlocks:
    """Makes the facts about `with` blocks, once for each block and calling context."""

    values: Values
    """Tells what a `with` enters."""
    _made: dict[tuple[int, int], Context] = field(default_factory=dict)
    _around: dict[tuple[int, int], tuple[Context, ...]] = field(default_factory=dict)

    def around(self, block: Block, scope: Scope) -> tuple[Context, ...]:
        """The `with` blocks around a block, outermost first."""
        key = (id(block), id(self.values.context_in(scope)))
        if key not in self._around:
            self._around[key] = tuple(self._of(at, scope) for at in block.chain() if at.form == "with")
        return self._around[key]

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
            if isinstance(node, ast.IfExp) and (_is_state(node.test) or _is_setting(node.test, scope)):
                node = next((one for one in (node.body, node.orelse) if not _does_nothing(one)), node)
            if isinstance(node, ast.Call):
                what = meaning(self.values, node, at)
                name = what.name
                target = what.target.id if what.target is not None else ""
                owner = node.func.value if isinstance(node.func, ast.Attribute) and name.startswith(".") else None
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


def _is_state(test: ast.expr) -> bool:
    """Whether a test asks whether there are several ranks, and nothing else."""
    if isinstance(test, ast.UnaryOp):
        return _is_state(test.operand)
    asked = test.func if isinstance(test, ast.Call) else test
    name = dotted(asked).rpartition(".")[2].lower()
    return bool(name) and any(word in name for word in names.STATE_WORDS)


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

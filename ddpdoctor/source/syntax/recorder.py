"""What one walk over a module has found so far, and the scope, the block and the order that it has reached."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from ddpdoctor.source.names.dotted_names import dotted, written_path
from ddpdoctor.source.syntax.scopes import Block, Definition, RawChange, RawCut, RawWrite, Scope

_OF_STACKS = frozenset({"enter_context", "close"})
_MOST_ENTERED = 20  # of one block: generated code has thousands of `enter_context`, each within the last


class Recorder:
    """The scopes of a module, and the place in them that the walk has reached."""

    def __init__(self, tree: ast.Module, file: str) -> None:
        self.scopes: list[Scope] = []
        self.scope: Scope
        self.block: Block
        self.order: int
        self._stacks: dict[Block, str] = {}
        """By the block of a context that `enter_context` opened, the name of its stack."""
        self.enter(Scope(tree, "<module>", file, None, Block("root")))

    def enter(self, scope: Scope) -> None:
        """Go to the beginning of a scope."""
        self.scopes.append(scope)
        self.scope, self.block, self.order = scope, scope.root, 0

    @contextmanager
    def inside(self, scope: Scope) -> Iterator[None]:
        """Walk over a scope within this one, and come back."""
        before = self.scope, self.block, self.order
        self.enter(scope)
        yield
        scope.last_order = self.order
        self.scope, self.block, self.order = before

    def tick(self) -> int:
        """The next number among the calls, assignments, loops and exits of the scope."""
        self.order += 1
        return self.order

    def define(self, key: str, definition: Definition) -> None:
        """Note that a name gets a value."""
        self.scope.definitions.setdefault(key, []).append(definition)

    def change(self, owner: ast.expr, attribute: str, value: ast.expr, line: int) -> None:
        """Note that a part of an object changes; without an attribute, that a container gets one more."""
        path = written_path(owner)
        if path:
            key = f"{path}.{attribute}" if attribute else path
            self.scope.changes.append(RawChange(key, owner, value, self.tick(), self.block, line, adds=not attribute))

    def write(self, target: ast.expr, value: ast.expr | None, *, replaces: bool = True) -> None:
        """Note that an assignment writes into an object, where its target is an item or the data of a tensor."""
        into = isinstance(target, ast.Subscript) or (isinstance(target, ast.Attribute) and target.attr == "data")
        if into and value is not None:
            self.scope.writes.append(RawWrite(target, value, replaces, self.tick(), self.block))

    def cut(self, node: ast.expr, whole: ast.expr, parts: Sequence[ast.expr]) -> None:
        """Note that a part of a list is taken."""
        self.scope.cuts.append(RawCut(node, whole, tuple(parts), self.tick(), self.block))

    def end(self, form: str, *, fails: bool = False) -> None:
        """Note how control leaves at the end of the block."""
        if not self.block.ends:
            self.block.ends, self.block.fails = form, fails

    def join(self, blocks: Sequence[Block], *, complete: bool) -> None:
        """After a statement with alternatives: those that have left are remembered; if all have, so has the block."""
        for block in blocks:
            block.branches = len(blocks) if complete else 0
            if block.ends:
                self.block.ended.append((self.order, block))
        if complete and blocks and all(block.ends for block in blocks):
            kinds = {block.ends for block in blocks}
            self.end(kinds.pop() if len(kinds) == 1 else "return", fails=all(block.fails for block in blocks))

    def return_to(self, block: Block) -> None:
        """Go back to a block from one within it that always runs with it, and whose end is therefore its own."""
        ended, fails = self.block.ends, self.block.fails
        self.block = block
        if ended:
            self.end(ended, fails=fails)

    def enter_context(self, node: ast.expr | None) -> None:
        """`stack.enter_context(manager)` is a `with` over what follows in the same block, until `stack.close()`."""
        if type(node) is not ast.Call or type(node.func) is not ast.Attribute or node.func.attr not in _OF_STACKS:
            return
        stack = dotted(node.func.value)
        if node.func.attr == "close" and stack in self._stacks.values():
            self._close(stack)
        if node.func.attr == "enter_context" and node.args and sum(1 for _ in self._open_stacks()) < _MOST_ENTERED:
            item = ast.withitem(context_expr=node.args[0])
            self.block = Block("with", item, self.block, order=self.tick())
            self._stacks[self.block] = stack

    def _open_stacks(self) -> Iterator[Block]:
        """The innermost contexts that `enter_context` opened, up to the block that they stand in."""
        at = self.block
        while at in self._stacks and at.parent is not None:
            yield at
            at = at.parent

    def _close(self, stack: str) -> None:
        """Leave the contexts of a stack, where no other stack has opened one within them."""
        for block in list(self._open_stacks()):
            if self._stacks[block] != stack or block.parent is None:
                break
            self.return_to(block.parent)

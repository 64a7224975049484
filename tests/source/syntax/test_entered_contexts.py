"""How long a context lasts that `stack.enter_context` opens."""

from __future__ import annotations

import ast

import pytest

from ddpdoctor.source.syntax.scopes import Block
from ddpdoctor.source.syntax.walk import walk


def contexts_of(source: str, call: str) -> list[str]:
    """The contexts around a call of `call`, outermost first."""
    module = walk(ast.parse(source), "train.py")[0]
    (found,) = (one for one in module.calls if ast.unparse(one.node) == call)
    return [ast.unparse(block.node) for block in found.block.chain() if isinstance(block.node, ast.withitem)]


@pytest.mark.parametrize(
    ("lines", "contexts"),
    [
        (["s.enter_context(a)", "step()"], ["a"]),
        (["s.enter_context(a)", "s.enter_context(b)", "s.close()", "step()"], []),
        (["s.enter_context(a)", "t.close()", "step()"], ["a"]),
        (["s.enter_context(a)", "t.enter_context(b)", "t.close()", "step()"], ["a"]),
        (["with ExitStack() as s:", "    s.enter_context(a)", "step()"], []),
    ],
)
def test_a_context_ends_with_its_stack(lines: list[str], contexts: list[str]) -> None:
    """`stack.close()` and the end of the `with` that made the stack end it; another stack's does not."""
    assert contexts_of("\n".join(lines), "step()") == contexts


def test_thousands_of_contexts_do_not_nest_without_end() -> None:
    """Each line under a context asks for all blocks around it: generated code would take the square of its length."""
    source = "\n".join(["s.enter_context(a)"] * 1000 + ["step()"])

    assert 0 < len(contexts_of(source, "step()")) < 100


def test_a_block_that_leaves_under_a_context_has_left() -> None:
    """What follows `return` under a context that was closed again belongs to a block that has ended."""
    source = "def f():\n    s.enter_context(a)\n    return\n    s.close()"
    function = walk(ast.parse(source), "train.py")[1]

    assert isinstance(function.root, Block)
    assert function.root.ends == "return"

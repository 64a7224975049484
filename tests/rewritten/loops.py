"""Other ways to go over the batches and to count epochs."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tests.rewritten.trees import (
    Function,
    Program,
    blocks,
    dotted,
    expression,
    fresh,
    has,
    imported,
    last_name,
    leaves,
    marked,
    statements,
)


def _loops(program: Program) -> Iterator[tuple[list[ast.stmt], int, ast.For, ast.Module, Function | None]]:
    """The `for` loops over something that has a name, last first."""
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for number in reversed(range(len(block))):
                one = block[number]
                if isinstance(one, ast.For) and dotted(one.iter) and not one.orelse:
                    yield block, number, one, tree, function


def over(template: str, *lines: str, target: str = "T") -> Callable[[Program], int]:
    """The loop goes over an expression around the same thing."""

    def rewrite(program: Program) -> int:
        changed = []
        for _, _, one, tree, _ in _loops(program):
            one.iter = expression(template, L=one.iter)
            (head,) = statements(f"for {target} in x:\n    pass", T=one.target)
            assert isinstance(head, ast.For)
            one.target = head.target
            changed.append(tree)
        for tree in {id(tree): tree for tree in changed}.values():
            imported(tree, *lines)
        return len(changed)

    return rewrite


_NEXT = """\
I = iter(L)
while True:
    try:
        T = next(I)
    except StopIteration:
        break
    B
"""
_COUNTED = """\
I = iter(L)
for N in range(len(L)):
    T = next(I)
    B
"""
_INDEXED = """\
N = 0
for T in L:
    N += 1
    B
"""


def spelled(template: str) -> Callable[[Program], int]:
    """The loop as other statements."""

    def rewrite(program: Program) -> int:
        count = 0
        for block, number, one, _, _ in _loops(program):
            target = ast.unparse(one.target)
            text = template.replace("T =", f"{target} =").replace("T in", f"{target} in")
            names = {"I": fresh(program, "batches"), "N": fresh(program, "number")}
            *before, loop = statements(text, L=one.iter, B=one.body, **names)
            block[number : number + 1] = [*before, marked(loop, one)]
            count += 1
        return count

    return rewrite


by_next, by_count, numbered = spelled(_NEXT), spelled(_COUNTED), spelled(_INDEXED)


def by_generator(program: Program) -> int:
    """`for x in each(loader)`, a generator of the module that yields what it goes over."""
    count = 0
    for tree in program.values():
        name = fresh(program, "each")
        before = count
        for _, _, one, of, _ in _loops(program):
            if of is tree:
                one.iter = expression("N(L)", N=name, L=one.iter)
                count += 1
        if count > before:
            imported(tree, *[f"def {name}(items):\n    for item in items:\n        yield item"])
            tree.body.sort(key=lambda each: not isinstance(each, ast.ImportFrom) or each.module != "__future__")
    return count


def counted_by_while(program: Program) -> int:
    """`epoch = 0` / `while epoch < epochs:` / `epoch += 1` for a loop over a range."""
    count = 0
    for tree in program.values():
        for block, _ in list(blocks(tree)):
            for number in reversed(range(len(block))):
                one = block[number]
                if not isinstance(one, ast.For) or last_name(one.iter) != "range" or one.orelse or leaves_early(one):
                    continue
                assert isinstance(one.iter, ast.Call)
                given = one.iter.args
                if len(given) > 2 or not isinstance(one.target, ast.Name) or one.target.id == "_":
                    continue
                start = given[0] if len(given) == 2 else ast.Constant(0)
                begin, loop = statements(
                    "N = A\nwhile N < E:\n    B\n    N += 1", N=one.target.id, A=start, E=given[-1], B=one.body
                )
                block[number : number + 1] = [begin, marked(loop, one)]
                count += 1
    return count


def leaves_early(loop: ast.For) -> bool:
    """Whether a loop has a `continue` of its own."""
    return leaves(loop.body) and _continues(loop.body)


def _continues(nodes: list[ast.stmt]) -> bool:
    return has(nodes, ast.Continue)


def with_progress(program: Program) -> int:
    """`bar = tqdm(loader)` / `for x in bar:`, a bar that every rank shows but those above 0."""
    changed = []
    for block, number, one, tree, _ in _loops(program):
        name = fresh(program, "bar")
        block[number:number] = statements("N = tqdm(L, disable=True)", N=name, L=one.iter)
        one.iter = ast.Name(name, ast.Load())
        changed.append(tree)
    for tree in {id(tree): tree for tree in changed}.values():
        imported(tree, "from tqdm import tqdm")
    return len(changed)

"""Other imports, and functions in a module of their own."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.rewritten.trees import FUNCTIONS, Program, Replaced, at_top, expression, imported, loads, stores

_LINES = (ast.Import, ast.ImportFrom)


def moved(how: str) -> Callable[[Program], int]:
    """The functions that need nothing of their module but each other and its imports, in `parts.py`, imported in this way."""

    def rewrite(program: Program) -> int:
        if len(program) > 1:
            return 0  # other modules may import these
        ((file, tree),) = program.items()
        bound = set(stores(one for one in tree.body if not isinstance(one, _LINES)))
        moving = {one.name: one for one in tree.body if isinstance(one, FUNCTIONS) and one.name != "main"}
        while unfit := [
            name for name, one in moving.items() if (set(loads([one])) & bound) - set(moving) - set(stores(one.body))
        ]:
            for name in unfit:
                del moving[name]
        if not moving or any(isinstance(one, ast.Global) for each in moving.values() for one in ast.walk(each)):
            return 0
        lines = [one for one in tree.body if isinstance(one, _LINES)]
        tree.body = [one for one in tree.body if one not in moving.values()]
        if how.startswith("from"):
            at_top(tree, ast.parse(how.format(names=", ".join(sorted(moving)))).body)
        else:
            name = how.rpartition(" ")[2]
            replaced = Replaced({one: expression(f"{name}.{one}") for one in moving})
            tree.body = [replaced.visit(one) for one in tree.body]
            at_top(tree, ast.parse(how).body)
        folder = file.rpartition("/")[0]
        program[f"{folder}/parts.py" if folder else "parts.py"] = ast.Module([*lines, *moving.values()], [])
        return len(moving)

    return rewrite


class _Named(ast.NodeTransformer):
    """Names of torch by another path."""

    def __init__(self, by: dict[str, str]) -> None:
        self.by, self.changed = by, 0

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.by:
            self.changed += 1
            return expression(self.by[node.id])
        return node


def torch_in_full(program: Program) -> int:
    """`torch.distributed.barrier()` and `torch.nn.parallel.DistributedDataParallel(...)`, with no name of their own."""
    count = 0
    for tree in program.values():
        by = _paths(tree)
        names = _Named(by)
        names.visit(tree)
        if names.changed:
            imported(
                tree,
                "import torch",
                "import torch.distributed",
                "import torch.nn.parallel",
                "import torch.utils.data.distributed",
            )
        count += names.changed
    return count


def _paths(tree: ast.Module) -> dict[str, str]:
    own = {
        name
        for one in ast.walk(tree)
        if isinstance(one, FUNCTIONS)
        for name in [*stores(one.body), *(a.arg for a in one.args.args)]
    }
    own |= set(stores(one for one in tree.body if not isinstance(one, _LINES)))
    found: dict[str, str] = {}
    for one in tree.body:
        if isinstance(one, ast.ImportFrom) and one.module and one.module.startswith("torch") and not one.level:
            if one.module.partition(".")[0] == "torch":
                found |= {each.asname or each.name: f"{one.module}.{each.name}" for each in one.names}
        elif isinstance(one, ast.Import):
            found |= {each.asname: each.name for each in one.names if each.asname and each.name.startswith("torch.")}
    return {name: path for name, path in found.items() if name not in own and name != "*"}


def torch_by_other_names(program: Program) -> int:
    """`from torch import distributed as pg`, `from torch.distributed import barrier as sync`, and so on."""
    count = 0
    for tree in program.values():
        paths = _paths(tree)
        names = _Named({name: f"{name}_of_torch" for name in paths})
        names.visit(tree)
        if names.changed:
            lines = [
                f"from {path.rpartition('.')[0]} import {path.rpartition('.')[2]} as {name}_of_torch"
                for name, path in paths.items()
            ]
            imported(tree, *lines)
        count += names.changed
    return count


def collectives_by_name(program: Program) -> int:
    """`from torch.distributed import barrier as dist_barrier`, for each function of it that is called by its path."""
    count = 0
    for tree in program.values():
        paths = {name for name, path in _paths(tree).items() if path == "torch.distributed"}
        used: set[str] = set()
        for one in ast.walk(tree):
            match one:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=name)) if owner in paths:
                    used.add(name)
                    one.func = ast.Name(f"dist_{name}", ast.Load())
                    count += 1
        imported(tree, *[f"from torch.distributed import {name} as dist_{name}" for name in sorted(used)])
    return count

"""Other ways to make the same call."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

from tests.rewritten.trees import (
    FUNCTIONS,
    Function,
    Program,
    at_top,
    blocks,
    expression,
    fresh,
    imported,
    last_name,
    marked,
    parameters,
    statements,
    stores,
)

MAKERS = {
    "DataLoader": ("dataset", "batch_size", "shuffle", "sampler"),
    "DistributedSampler": ("dataset", "num_replicas", "rank", "shuffle"),
    "DistributedDataParallel": ("module", "device_ids"),
    "DDP": ("module", "device_ids"),
    "save": ("obj", "f"),
    "load": ("f", "map_location"),
}
"""The parameters of functions that rules ask about, by position."""


def _calls(program: Program) -> Iterator[ast.Call]:
    for tree in program.values():
        yield from (one for one in ast.walk(tree) if isinstance(one, ast.Call))


def by_keyword(program: Program) -> int:
    """`DataLoader(dataset=data, batch_size=32)`, and every argument of the program's own functions by its name."""
    own = {
        one.name: parameters(one)
        for tree in program.values()
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and not one.args.vararg and not one.args.posonlyargs
    }
    count = 0
    for call in _calls(program):
        name = last_name(call)
        known = MAKERS.get(name) or (own.get(name) if isinstance(call.func, ast.Name) else None)
        if (
            known
            and call.args
            and len(call.args) <= len(known)
            and not any(isinstance(one, ast.Starred) for one in call.args)
        ):
            call.keywords[:0] = [ast.keyword(word, value) for word, value in zip(known, call.args, strict=False)]
            call.args = []
            count += 1
    return count


def _statements(
    program: Program,
) -> Iterator[tuple[list[ast.stmt], int, ast.stmt, ast.Call, Function | None, ast.Module]]:
    """The calls of makers that are a statement, or all that an assignment gives; last first."""
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for number in reversed(range(len(block))):
                one = block[number]
                if (
                    isinstance(one, ast.Assign | ast.Expr)
                    and isinstance(one.value, ast.Call)
                    and last_name(one.value) in MAKERS
                ):
                    yield block, number, one, one.value, function, tree


def with_options(template: str) -> Callable[[Program], int]:
    """The options of a call in a dictionary: `DataLoader(data, **options)`."""

    def rewrite(program: Program) -> int:
        count = 0
        for block, number, _, call, _, _ in _statements(program):
            if call.keywords and all(one.arg for one in call.keywords):
                name = fresh(program, "options")
                keys = ast.Dict([ast.Constant(one.arg) for one in call.keywords], [one.value for one in call.keywords])
                given = ast.Call(ast.Name("dict", ast.Load()), [], call.keywords)
                block[number:number] = statements(template, N=name, D=keys, K=given)
                call.keywords = [ast.keyword(None, ast.Name(name, ast.Load()))]
                count += 1
        return count

    return rewrite


def by_partial(program: Program) -> int:
    """`make = partial(DataLoader, batch_size=32)` and `make(data)`."""
    changed = []
    for block, number, _, call, _, tree in _statements(program):
        if call.keywords and all(one.arg for one in call.keywords):
            name = fresh(program, "make")
            made = ast.Call(ast.Name("partial", ast.Load()), [call.func], call.keywords)
            block[number:number] = statements("N = M", N=name, M=made)
            call.func, call.keywords = ast.Name(name, ast.Load()), []
            changed.append(tree)
    for tree in {id(tree): tree for tree in changed}.values():
        imported(tree, "from functools import partial")
    return len(changed)


def passed_on(program: Program) -> int:
    """`def make(*args, **kwargs): return DataLoader(*args, **kwargs)`, called in its place."""
    count = 0
    for tree in program.values():
        made: dict[str, str] = {}
        for call in [one for one in ast.walk(tree) if isinstance(one, ast.Call) and last_name(one) in MAKERS]:
            text = ast.unparse(call.func)
            if text.partition(".")[0] not in stores(tree.body):
                continue
            name = made.setdefault(text, f"make_{last_name(call).lower()}")
            call.func = ast.Name(name, ast.Load())
            count += 1
        for text, name in made.items():
            at_top(
                tree, statements("def N(*args, **kwargs):\n    return F(*args, **kwargs)", N=name, F=expression(text))
            )
    return count


def _own(tree: ast.Module) -> set[str]:
    return {one.name for one in tree.body if isinstance(one, FUNCTIONS)}


def from_table(program: Program) -> int:
    """`STEPS["train"](model)` with a dictionary of the module's functions at its end."""
    count = 0
    for tree in program.values():
        own = _own(tree)
        used = [
            one
            for one in ast.walk(tree)
            if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id in own
        ]
        inside = {
            id(one) for each in tree.body if isinstance(each, (*FUNCTIONS, ast.ClassDef)) for one in ast.walk(each)
        }
        for call in (one for one in used if id(one) in inside):
            assert isinstance(call.func, ast.Name)
            call.func = expression("STEPS[K]", K=ast.Constant(call.func.id))
            count += 1
        if used:
            table = ast.Dict(
                [ast.Constant(one) for one in sorted(own)], [ast.Name(one, ast.Load()) for one in sorted(own)]
            )
            place = max(number for number, one in enumerate(tree.body) if isinstance(one, FUNCTIONS)) + 1
            tree.body[place:place] = statements("STEPS = D", D=table)
    return count


def by_getattr(program: Program) -> int:
    """`getattr(self, "step")(batch)` for methods of the same object."""
    count = 0
    for call in _calls(program):
        if (
            isinstance(call.func, ast.Attribute)
            and isinstance(call.func.value, ast.Name)
            and call.func.value.id == "self"
        ):
            call.func = expression("getattr(self, K)", K=ast.Constant(call.func.attr))
            count += 1
    return count


def decorated(program: Program) -> int:
    """Every function of the module under a decorator that measures it and passes all on."""
    count = 0
    for tree in program.values():
        found = [one for one in tree.body if isinstance(one, FUNCTIONS) and not one.decorator_list]
        for one in found:
            one.decorator_list.append(ast.Name("timed", ast.Load()))
        if found:
            at_top(tree, ast.parse(_TIMED).body)
            imported(tree, "import functools", "import time")
        count += len(found)
    return count


_TIMED = """\
def timed(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        began = time.perf_counter()
        result = function(*args, **kwargs)
        print(function.__name__, time.perf_counter() - began)
        return result

    return inner
"""


def compiled(program: Program) -> int:
    """`model = torch.compile(DDP(model))`."""
    count = 0
    for block, number, one, call, _, _ in _statements(program):
        if last_name(call) in {"DDP", "DistributedDataParallel"} and isinstance(one, ast.Assign):
            block[number] = marked(ast.Assign(one.targets, expression("torch.compile(M)", M=call)), one)
            count += 1
    return count


def as_callables(program: Program) -> int:
    """Functions of the module as objects that are called: `class Train` with `__call__`, and `train = Train()`."""
    count = 0
    for tree in program.values():
        for number in reversed(range(len(tree.body))):
            one = tree.body[number]
            if isinstance(one, ast.FunctionDef) and not one.decorator_list and one.name != "main":
                method = copy.copy(one)
                method.name, method.args = "__call__", copy.deepcopy(one.args)
                method.args.args.insert(0, ast.arg("self"))
                name = f"{one.name.title().replace('_', '')}Call"
                cls = ast.ClassDef(name, [], [], [method], [])
                if hasattr(cls, "type_params"):
                    cls.type_params = []
                tree.body[number : number + 1] = [cls, *statements("F = C()", F=one.name, C=name)]
                count += 1
    return count

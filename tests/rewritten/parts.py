"""Other divisions of a program into functions, classes and blocks."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tests.rewritten.extraction import extracted_expression, extracted_statements, names_of
from tests.rewritten.trees import (
    FUNCTIONS,
    Function,
    Program,
    Replaced,
    blocks,
    expression,
    fresh,
    has,
    imported,
    last_name,
    loads,
    marked,
    parameters,
    statements,
    stores,
)

_DONE = {"barrier", "all_reduce", "broadcast", "save", "set_epoch", "load_state_dict", "init_process_group", "step",
         "destroy_process_group", "set_device", "backward", "all_gather", "broadcast_object_list", "clip_grad_norm_"}  # fmt: skip
_MADE = {"DDP", "DistributedDataParallel", "DataLoader", "DistributedSampler", "load", "FSDP", "random_split"}


def calls_in_functions(program: Program) -> int:
    """`dist.barrier()`, `torch.save(...)` and the like in functions of their own."""
    count = 0
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for one in list(block):
                if function is None or not isinstance(one, ast.Expr) or last_name(one.value) not in _DONE:
                    continue
                if "super()" in ast.unparse(one):
                    continue
                number = next(at for at, each in enumerate(block) if each is one)
                count += extracted_statements(program, tree, function, block, number, number + 1, "do")
    return count


def made_in_functions(program: Program) -> int:
    """`model = make(model, local_rank)`, a function that returns the wrapper, the loader or the sampler."""
    count = 0
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for one in list(block):
                if function is not None and isinstance(one, ast.Assign) and last_name(one.value) in _MADE:
                    one.value = extracted_expression(program, tree, function, one.value, "make", one)
                    count += 1
    return count


def branches_in_functions(program: Program) -> int:
    """The body of each `if` in a function of its own."""
    count = 0
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for one in list(block):
                if isinstance(one, ast.If) and function is not None:
                    count += extracted_statements(program, tree, function, one.body, 0, len(one.body), "branch")
    return count


def _loops(program: Program, *, inner: bool) -> Iterator[tuple[ast.Module, Function, list[ast.stmt], ast.For]]:
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for one in list(block):
                if isinstance(one, ast.For) and function is not None and has(one.body, ast.For) is not inner:
                    yield tree, function, block, one


def epoch_in_function(program: Program) -> int:
    """The loop over the batches in a function of its own: `train_one_epoch(model, loader, ...)`."""
    count = 0
    for tree, function, block, one in _loops(program, inner=True):
        number = next(at for at, each in enumerate(block) if each is one)
        count += extracted_statements(program, tree, function, block, number, number + 1, "one_pass")
    return count


def training_in_function(program: Program) -> int:
    """The loop over the epochs in a function of its own: `train(model, loader, ...)`."""
    count = 0
    for tree, function, block, one in _loops(program, inner=False):
        number = next(at for at, each in enumerate(block) if each is one)
        count += extracted_statements(program, tree, function, block, number, number + 1, "fit")
    return count


def step_in_function(program: Program) -> int:
    """The body of the loop over the batches in a function of its own: `step(model, batch, ...)`."""
    count = 0
    for tree, function, _, one in _loops(program, inner=True):
        count += extracted_statements(program, tree, function, one.body, 0, len(one.body), "step")
    return count


def _jobs(program: Program) -> Iterator[tuple[ast.Module, ast.FunctionDef, int]]:
    """Functions of a module with a loop among their own statements, and where that stands."""
    for tree in program.values():
        for one in [each for each in tree.body if isinstance(each, ast.FunctionDef) and not each.decorator_list]:
            kinds = (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal, ast.Yield, *FUNCTIONS, ast.ClassDef)
            first = next((at for at, each in enumerate(one.body) if isinstance(each, ast.For | ast.While)), 0)
            if first and not has(one.body, *kinds) and not has(one.body[:first], ast.Return):
                yield tree, one, first


def set_up_apart(template: str) -> Callable[[Program], int]:
    """What stands before the first loop of a function in a function that gives back what the rest needs."""

    def rewrite(program: Program) -> int:
        count = 0
        for tree, function, first in list(_jobs(program)):
            before, rest = function.body[:first], function.body[first:]
            needed = [one for one in loads(rest) if one in stores(before)]
            if not needed or any(one not in _bound_always(before) for one in needed):
                continue
            name, held = fresh(program, "set_up"), fresh(program, "parts")
            given = parameters(function)
            call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(one, ast.Load()) for one in given], [])
            if template == "tuple":
                packed: ast.expr = ast.Tuple([ast.Name(one, ast.Load()) for one in needed], ast.Load())
                taken: ast.expr = ast.Tuple([ast.Name(one, ast.Store()) for one in needed], ast.Store())
                new: list[ast.stmt] = [ast.Assign([taken if len(needed) > 1 else taken.elts[0]], call)]
                packed = packed if len(needed) > 1 else packed.elts[0]
            else:
                keys = [ast.Constant(one) for one in needed]
                words = [ast.keyword(one, ast.Name(one, ast.Load())) for one in needed]
                packed = (
                    ast.Dict(keys, [one.value for one in words])
                    if template == "dict"
                    else ast.Call(ast.Name("SimpleNamespace", ast.Load()), [], words)
                )
                new = statements("H = V", H=held, V=call)
                used = "{0}['{1}']" if template == "dict" else "{0}.{1}"
                places = {one: expression(used.format(held, one)) for one in needed}
                rest = [Replaced(places, targets=True).visit(one) for one in rest]
            (definition,) = statements(f"def N({', '.join(given)}):\n    B\n    return P", N=name, B=before, P=packed)
            function.body = [*new, *rest]
            tree.body.insert(tree.body.index(function), definition)
            imported(tree, "from types import SimpleNamespace")
            count += 1
        return count

    return rewrite


def _bound_always(nodes: list[ast.stmt]) -> set[str]:
    return set(stores(one for one in nodes if isinstance(one, ast.Assign | ast.AnnAssign | ast.Expr)))


_CLASS = """\
class C:
    def __init__(self, {given}):
        G
        A

    def run(self):
        B
"""
_HOOKS = """\
class C_base:
    def __init__(self, {given}):
        G
        self.set_up()

    def set_up(self):
        raise NotImplementedError

    def fit(self):
        raise NotImplementedError

    def run(self):
        return self.fit()


class C(C_base):
    def set_up(self):
        A

    def fit(self):
        B
"""
_SUPER = """\
class C_base:
    def __init__(self, {given}):
        G
        A

    def run(self):
        pass


class C(C_base):
    def __init__(self, {given}):
        super().__init__({given})

    def run(self):
        super().run()
        B
"""
_STEPS = """\
class C:
    def __init__(self, {given}):
        G

    def set_up(self):
        A

    def train(self):
        B

    def run(self):
        self.set_up()
        self.train()
"""
CLASSES = {"class": _CLASS, "base class with hooks": _HOOKS, "super()": _SUPER, "set_up and train": _STEPS}


def in_class(template: str) -> Callable[[Program], int]:
    """A function as a class: what stands before its first loop sets attributes, the rest is another method."""

    def rewrite(program: Program) -> int:
        count = 0
        for tree, function, first in list(_jobs(program)):
            before, rest = function.body[:first], function.body[first:]
            held = {*stores(before), *parameters(function)}
            caught = {one.name for one in ast.walk(function) if isinstance(one, ast.ExceptHandler)}
            if held & caught or function.args.vararg or function.args.kwarg or function.args.kwonlyargs:
                continue
            if template is _STEPS and has(rest, ast.Return):
                continue
            places = {one: expression(f"self.{one}") for one in held}
            text = template.replace("{given}", ", ".join(parameters(function))).replace("C_base", "C_base")
            name = f"{function.name.title().replace('_', '')}Job"
            replaced = Replaced(places, targets=True)
            body = [replaced.visit(one) for one in before], [replaced.visit(one) for one in rest]
            given = [one for each in parameters(function) for one in statements(f"self.{each} = {each}")] or [
                ast.Pass()
            ]
            new = statements(text, C=name, C_base=f"{name}Base", A=body[0], B=body[1], G=given)
            call = ast.Call(ast.Name(name, ast.Load()), [ast.Name(one, ast.Load()) for one in parameters(function)], [])
            function.body = statements("return J.run()", J=call)
            number = tree.body.index(function)
            tree.body[number:number] = new
            count += 1
        return count

    return rewrite


def in_try(program: Program) -> int:
    """The body of each function with a loop in `try:` / `finally:`."""
    count = 0
    for _, function, _ in list(_jobs(program)):
        function.body = [ast.Try(function.body, [], [], statements("print('done')"))]
        count += 1
    return count


def forward_in(template: str, *lines: str) -> Callable[[Program], int]:
    """Each assignment in the loop over the batches inside of a `with` block."""

    def rewrite(program: Program) -> int:
        count = 0
        for tree, _, _, one in list(_loops(program, inner=True)):
            for number, each in enumerate(one.body):
                if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call):
                    (block,) = statements(f"with {template}:\n    B", B=[each])
                    one.body[number] = block
                    count += 1
            imported(tree, *lines)
        return count

    return rewrite


def annotated(program: Program) -> int:
    """`x: "object" = value` for each assignment to one name of a function."""
    count = 0
    for tree in program.values():
        for block, function in list(blocks(tree)):
            for number, one in enumerate(block):
                if function is None or not isinstance(one, ast.Assign) or len(one.targets) > 1:
                    continue
                if isinstance(one.targets[0], ast.Name) and one.targets[0].id in names_of(function):
                    block[number] = marked(ast.AnnAssign(one.targets[0], ast.Constant("object"), one.value, 1), one)
                    count += 1
    return count


def in_static_methods(program: Program) -> int:
    """The functions of a module, `main` apart, as static methods of a class."""
    count = 0
    for tree in program.values():
        moved = [
            one
            for one in tree.body
            if isinstance(one, ast.FunctionDef) and not one.decorator_list and one.name != "main"
        ]
        outside = {name for other in program.values() if other is not tree for name in _imported(other)}
        moved = [one for one in moved if one.name not in outside]
        if not moved:
            continue
        names = {one.name: expression(f"Steps.{one.name}") for one in moved}
        place = tree.body.index(moved[0])
        kept = [one for one in tree.body if one not in moved]
        replaced = Replaced(names)
        kept = [replaced.visit(one) for one in kept]
        moved = [replaced.visit(one) for one in moved]
        for one in moved:
            one.decorator_list = [ast.Name("staticmethod", ast.Load())]
        (cls,) = statements("class Steps:\n    B", B=moved)
        tree.body = [*kept[:place], cls, *kept[place:]]
        count += 1
    return count


def _imported(tree: ast.Module) -> set[str]:
    return {one.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for one in node.names}

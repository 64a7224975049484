"""Other places for a value that a function gives a name: an object, a dictionary, a function that answers."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.rewritten.extraction import names_of
from tests.rewritten.trees import (
    Function,
    Program,
    Replaced,
    at_top,
    expression,
    fresh,
    imported,
    loads,
    marked,
    statements,
    stores,
)

_OF_RANKS = re.compile(r"rank|local|main|master|world|gpu|device|first|lead|chief|primary", re.IGNORECASE)


@dataclass(frozen=True)
class Holder:
    """How a value is held: X is its name, V the value, H the object, C the class."""

    made: str
    """What stands in the place of the assignment."""
    used: str
    """What stands for the name."""
    top: str = ""
    """What the module defines for it."""
    imports: tuple[str, ...] = ()
    alone: bool = False
    """The value is evaluated elsewhere, so that it must not need names of the function."""


HOLDERS = {
    "dataclass": Holder("H = C(X=V)", "H.X", "@dataclass\nclass C:\n    X: int", ("from dataclasses import dataclass",)),
    "NamedTuple": Holder("H = C(X=V)", "H.X", "class C(NamedTuple):\n    X: int", ("from typing import NamedTuple",)),
    "SimpleNamespace": Holder("H = SimpleNamespace(X=V)", "H.X", "", ("from types import SimpleNamespace",)),
    "argparse.Namespace": Holder("H = Namespace()\nH.X = V", "H.X", "", ("from argparse import Namespace",)),
    "dict": Holder("H = {'X': V}", "H['X']"),
    "dict()": Holder("H = dict(X=V)\n", "H.get('X')"),
    "object": Holder("H = C(V)", "H.X", "class C:\n    def __init__(self, value):\n        self.X = value"),
    "property": Holder("H = C(V)", "H.X",
        "class C:\n    def __init__(self, value):\n        self._value = value\n\n"
        "    @property\n    def X(self):\n        return self._value"),
    "cached_property": Holder("H = C()", "H.X", "class C:\n    @cached_property\n    def X(self):\n        return V",
        ("from functools import cached_property",), alone=True),
    "method": Holder("H = C()", "H.X()", "class C:\n    def X(self):\n        return V", alone=True),
    "static method": Holder("pass", "C.X()", "class C:\n    @staticmethod\n    def X():\n        return V", alone=True),
    "post_init": Holder("H = C()", "H.X",
        "@dataclass\nclass C:\n    X: int = 0\n\n    def __post_init__(self):\n        self.X = V",
        ("from dataclasses import dataclass",), alone=True),
    "default_factory": Holder("H = C()", "H.X", "@dataclass\nclass C:\n    X: int = field(default_factory=lambda: V)",
        ("from dataclasses import dataclass, field",), alone=True),
    "class attribute": Holder("C.X = V", "C.X", "class C:\n    X = None"),
    "class method sets": Holder("C.set_up(V)", "C.X",
        "class C:\n    X = None\n\n    @classmethod\n    def set_up(cls, value):\n        cls.X = value"),
    "global": Holder("global H\nH = V", "H", "H = None"),
    "function": Holder("pass", "H()", "def H():\n    return V", alone=True),
    "function's result": Holder("X = H()", "X", "def H():\n    return V", alone=True),
    "two results": Holder("X, _ = H()", "X", "def H():\n    return V, 1", alone=True),
    "dict of a function": Holder("X = H()['X']", "X", "def H():\n    return {'X': V}", alone=True),
    "lambda": Holder("H = lambda: V", "H()", alone=True),
    "partial": Holder("H = partial(int, V)", "H()", "", ("from functools import partial",)),
    "nested function": Holder("H_ = V\ndef H():\n    return H_", "H()"),
    "tuple": Holder("X, _ = V, None", "X"),
    "list": Holder("H = [V]", "H[0]"),
    "annotated": Holder("X: 'object' = V", "X"),
    "copy": Holder("H = V\nX = H", "X"),
    "setattr": Holder("H = SimpleNamespace()\nsetattr(H, 'X', V)", "H.X", "", ("from types import SimpleNamespace",)),
    "update": Holder("H = {}\nH.update(X=V)", "H['X']"),
    "item": Holder("H = {}\nH['X'] = V", "H['X']"),
    "config in config": Holder("H = SimpleNamespace(dist=SimpleNamespace(X=V))", "H.dist.X", "",
        ("from types import SimpleNamespace",)),
}  # fmt: skip


def held(how: Holder) -> Callable[[Program], int]:
    """The names of ranks and devices in this way."""

    def rewrite(program: Program) -> int:
        return sum(_hold(program, how, *site) for site in list(_sites(program)))

    return rewrite


def _sites(program: Program) -> Iterator[tuple[ast.Module, Function, ast.Assign]]:
    """The assignments in a function's own block that are the only one of a name."""
    for tree in program.values():
        for function in (one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)):
            own, bound = names_of(function), stores(function.body)
            for one in function.body:
                match one:
                    case ast.Assign(targets=[ast.Name(id=name)]) if name in own and bound.count(name) == 1:
                        if _OF_RANKS.search(name):
                            yield tree, function, one


def _hold(program: Program, how: Holder, tree: ast.Module, function: Function, old: ast.Assign) -> int:
    (target,) = old.targets
    assert isinstance(target, ast.Name)
    if how.alone and set(loads([old.value])) & names_of(function):
        return 0
    names = {"X": target.id, "H": fresh(program, "held"), "C": fresh(program, "Held")}
    texts = [re.sub(r"\b[XHC]\b", lambda found: names[found[0]], text) for text in (how.made, how.used, how.top)]
    texts = [text.replace("H_", names["H"] + "_value") for text in texts]
    number = function.body.index(old)
    new = statements(texts[0], V=old.value)
    function.body[number : number + 1] = new
    if how.used != "X":
        replacing = Replaced({target.id: expression(texts[1])})
        function.body[number + len(new) :] = [replacing.visit(one) for one in function.body[number + len(new) :]]
    if texts[2]:
        top = statements(texts[2], V=old.value)
        if "V" in how.top.replace("value", ""):
            _last(top).mark = getattr(old, "mark", "")  # type: ignore[attr-defined]
        at_top(tree, top)
    marked(new[-1], old)
    imported(tree, *how.imports)
    return 1


def _last(nodes: list[ast.stmt]) -> ast.stmt:
    inner = getattr(nodes[-1], "body", None)
    return _last(inner) if inner else nodes[-1]

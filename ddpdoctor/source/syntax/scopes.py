"""What the reader knows of a function before any value is asked for: its blocks, assignments, calls, loops and exits."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field


class Block:
    """A part of a function that runs under one condition, in one loop or in one `with`; `parent` is the part around it.

    `branch` counts the alternatives of one statement, `branches` is how many there are (0 where none need be taken), and
    `ends` is how control leaves at its end: `return`, `raise`, `break`, `continue`, `exit`, or empty. Of a handler, `since`
    is the number before the first call of its `try`.
    """

    __slots__ = (
        "_around",
        "branch",
        "branches",
        "depth",
        "ended",
        "ends",
        "fails",
        "form",
        "node",
        "order",
        "parent",
        "since",
        "test",
    )

    def __init__(
        self, form: str, node: ast.AST | None = None, parent: Block | None = None, *, branch: int = 0, order: int = 0
    ) -> None:
        self.form = form
        self.node = node
        self.parent = parent
        self.branch = branch
        self.branches = 0
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.ends = ""
        self.fails = False
        self.since = 0
        self.order = order
        self.test: ast.expr | None = None
        self.ended: list[tuple[int, Block]] = []
        self._around: tuple[Block, ...] | None = None

    def inside(self, other: Block) -> bool:
        """Whether this is `other` or a part of it."""
        at = self
        while at.depth > other.depth and at.parent is not None:
            at = at.parent
        return at is other

    def excludes(self, other: Block) -> bool:
        """Whether both are alternatives of one statement, so that a run takes one of them at most."""
        mine, theirs = self, other
        while mine.depth > theirs.depth and mine.parent is not None:
            mine = mine.parent
        while theirs.depth > mine.depth and theirs.parent is not None:
            theirs = theirs.parent
        while mine is not theirs and mine.parent is not None and theirs.parent is not None:
            if mine.parent is theirs.parent:
                return mine.node is theirs.node and mine.branch != theirs.branch
            mine, theirs = mine.parent, theirs.parent
        return False

    @property
    def handler(self) -> ast.ExceptHandler | None:
        """Of an `except`, the handler; else None."""
        handlers: list[ast.ExceptHandler] = getattr(self.node, "handlers", []) if self.form == "except" else []
        return handlers[self.branch - 1] if 0 < self.branch <= len(handlers) else None

    @property
    def tested_at(self) -> int:
        """The line of the `if` or `elif` that has the test; of an expression, that of the test; 0 without one."""
        at = self.node
        while isinstance(at, ast.If) and at.test is not self.test and at.orelse:
            at = at.orelse[0]
        return at.lineno if isinstance(at, ast.If) else getattr(self.test, "lineno", 0)

    def chain(self) -> tuple[Block, ...]:
        """The block and all around it, outermost first."""
        if self._around is None:
            found = []
            at = self.parent
            while at is not None:
                found.append(at)
                at = at.parent
            self._around = tuple(found[::-1])
        return (*self._around, self)


@dataclass(slots=True)
class Definition:
    """One place that gives a name a value."""

    order: int
    """Its number among the calls, assignments, loops and exits of its scope."""
    block: Block
    """The block that it is made in; that of the loop's body for a loop's target."""
    value: ast.expr | None
    """What is assigned, or what is iterated over or entered; None for a `def`, a class and `except ... as`."""
    form: str
    """What gives the value: `assign`, `augment`, `for`, `with`, `except`, `def`, or `change` of an object in place."""
    index: tuple[int, ...] = ()
    """Of `(a, b), c = value` the way to the name's part of `value`: (0, 1) for `b`; -1 behind a star."""
    kills: bool = True
    """Whether nothing of what the name held before is left: False after `x += 1` and `x.append(1)`."""
    line: int = 0
    """The line of the name in the module's text, 1 for the first; 0 where the walk did not note it."""
    operator: str = ""
    """Of `x /= n` the operator's name in `ast`: `Div`."""
    owner: ast.expr | None = None
    """Of `net.module.head = layer` the object that is assigned to, `net.module`."""


@dataclass(slots=True)
class RawChange:
    """A change of a part of an object that no name stands for: `net.module[0].head = layer`, `net.module.up.append(layer)`."""

    key: str
    """The part as written."""
    owner: ast.expr
    """The object that the part belongs to."""
    value: ast.expr
    """What the part gets."""
    order: int
    """Its number among the calls, assignments, loops and exits of its scope."""
    block: Block
    """The block that the statement stands in."""
    line: int
    """The line of the statement in the module's text."""
    adds: bool = False
    """The part is a container that gets one more."""


@dataclass(slots=True)
class RawWrite:
    """An assignment that writes into an object: `group["lr"] = 0.1`, `weight.data *= 0.9`, `weight.data[0] = 0`."""

    target: ast.expr
    """What is assigned to."""
    value: ast.expr
    """What is assigned; of `x *= n` the `n`."""
    replaces: bool
    """Nothing is left of what was there: False of `x *= n`."""
    order: int
    """Its number among the calls, assignments, loops and exits of its scope."""
    block: Block
    """The block that the statement stands in."""


@dataclass(slots=True, eq=False)
class RawCall:
    """A call, where it stands, and how deep in the blocks."""

    node: ast.Call
    """The call in the syntax tree."""
    order: int
    """Its number among the calls, assignments, loops and exits of its scope; an inner call has the lower one."""
    block: Block
    """The innermost block that it stands in, such as one branch of `a if test else b`."""
    name: str
    """The dotted name of what is called; empty where it has none."""
    last: str
    """The last part of that name."""
    method: str
    """The last part also where what stands before it is no name: `sum` of `model(x).sum()`."""
    meant: Scope | tuple[Scope, str] | str = ""
    """What the name means, as `Project.resolve` gives it, once the index has its file."""
    target: Scope | None = None
    """The function of the program that the name calls, as `Index.target` gives it, once the index has its file."""
    starts: Scope | None = None
    """The function of the program that it starts processes with, once the index has its file."""


@dataclass(slots=True)
class RawLoop:
    """A `for`, a `while`, or one `for` of a comprehension."""

    node: ast.For | ast.AsyncFor | ast.While
    """The statement; one that stands for it where the loop is part of a comprehension."""
    order: int
    """Its number in its scope, lower than those of everything in its body."""
    last_order: int
    """The last number given within its body."""
    block: Block
    """The block that the loop stands in."""
    body: Block
    """The block of its body, without that of its `else`."""


@dataclass(slots=True)
class RawExit:
    """A statement that leaves a function, a loop or the process, or a handler that swallows an error."""

    node: ast.stmt | ast.Call | ast.ExceptHandler
    """The statement, the call of `sys.exit`, or the `except` that swallows."""
    form: str
    """`return`, `break`, `continue`, `raise`, `exit`, or `swallow` at the end of an `except` that goes on."""
    order: int
    """Its number among the calls, assignments, loops and exits of its scope."""
    block: Block
    """The block that control leaves from."""
    fails: bool
    """Whether it ends the job with an error: `raise`, or an exit code that is not 0."""
    since: int = 0
    """In a handler, the number before the first call of its `try`; 0 outside of handlers."""


@dataclass(slots=True)
class RawStatement:
    """A statement and the block that it stands in."""

    node: ast.stmt
    """The statement in the syntax tree, with all statements within it."""
    block: Block
    """The innermost block around it."""


@dataclass(slots=True)
class RawCut:
    """A part of a list is taken, by a slice or by the test of a comprehension."""

    node: ast.expr
    """The expression that gives the part."""
    whole: ast.expr
    """The list that the part is taken of."""
    parts: tuple[ast.expr, ...]
    """The bounds and step of the slice, or the tests of the comprehension."""
    order: int
    """Its number among the calls, assignments, loops and exits of its scope."""
    block: Block
    """The block that the expression stands in."""


@dataclass(slots=True, eq=False)
class Scope:
    """A function, a class body, or a module."""

    node: ast.AST
    """The `def`, `class`, `lambda` as a `def`, or module in the syntax tree."""
    name: str
    """The name that it is defined under; `<module>` for a module."""
    file: str
    """The path of the module that it stands in."""
    parent: Scope | None
    """The scope that it is defined in; None for a module."""
    root: Block
    """The block of its body, which has no parent."""
    parameters: tuple[str, ...] = ()
    """The names of its parameters in order, keyword-only ones last, without `*args` and `**kwargs`."""
    defaults: dict[str, ast.expr] = field(default_factory=dict)
    """The default of each parameter that has one."""
    definitions: dict[str, list[Definition]] = field(default_factory=dict)
    """By name, dotted name or `name['key']`, what gives it a value, in order."""
    meanings: dict[str, Scope | tuple[Scope, str] | str] = field(default_factory=dict)
    """What names mean here, as `Project.resolve` has found it."""
    imports: dict[str, str] = field(default_factory=dict)
    """By the name that an import binds here, the full dotted name; under `*` the star imports, separated by spaces."""
    modules: list[str] = field(default_factory=list)
    """The full names of modules that `import a.b` loads, and binds no name for but `a`."""
    functions: dict[str, Scope] = field(default_factory=dict)
    """The functions defined directly in it, by name; of two with one name the last."""
    classes: dict[str, Scope] = field(default_factory=dict)
    """The classes defined directly in it, by name; of two with one name the last."""
    statements: list[RawStatement] = field(default_factory=list)
    """All of its statements, those within others too, in order; those of functions and classes within it are theirs."""
    calls: list[RawCall] = field(default_factory=list)
    """All calls, in the order in which they run, without those of functions and classes within it."""
    loops: list[RawLoop] = field(default_factory=list)
    """All loops in order; of comprehensions only those in which something is called."""
    exits: list[RawExit] = field(default_factory=list)
    """What leaves it, a loop of it or the process, in order."""
    returns: list[tuple[ast.expr, int, Block]] = field(default_factory=list)
    """The value of each `return` that has one, with its number and block."""
    yields: list[tuple[ast.expr, int, Block]] = field(default_factory=list)
    """The value of each `yield` that has one, with its number and block; not those of `yield from`."""
    yielding: list[Block] = field(default_factory=list)
    """The blocks in which a `yield` or `yield from` stands."""
    cuts: list[RawCut] = field(default_factory=list)
    """Where parts of lists are taken, in order."""
    changes: list[RawChange] = field(default_factory=list)
    """Changes of parts of objects that no name stands for, in order."""
    writes: list[RawWrite] = field(default_factory=list)
    """Assignments that write into objects, in order."""
    tests: list[Block] = field(default_factory=list)
    """The blocks whose test, or a part of it between `and`, `or` and `not`, is a mere name."""
    globals: set[str] = field(default_factory=set)
    """The names that it declares `global`."""
    fields: list[str] = field(default_factory=list)
    """Of a class body, the names that are annotated there, in order: the arguments of a dataclass's constructor."""
    generator: bool = False
    """Whether a `yield` or `yield from` stands in it, so that a call gives an iterator."""
    last_order: int = 0
    """The last number given in it."""
    defined_at: tuple[int, Block] | None = None
    """The number and block of its definition in the scope around it; None for a module."""
    is_class: bool = field(init=False)
    """Whether it is the body of a class."""
    of_class: Scope | None = field(init=False)
    """The class whose method this is, also from functions inside of methods."""

    def __post_init__(self) -> None:
        """Both are asked for often: they are found once."""
        self.is_class = isinstance(self.node, ast.ClassDef)
        around = self.parent
        method = around is not None and around.is_class and not self.is_class
        self.of_class = around if method or around is None else around.of_class

    @property
    def decorators(self) -> list[ast.expr]:
        """The decorators of a function or class."""
        return list(getattr(self.node, "decorator_list", ()))

    def loops_around(self, block: Block) -> list[RawLoop]:
        """The loops that a block of it stands in, outermost first."""
        return [loop for loop in self.loops if block.inside(loop.body)]

    @property
    def id(self) -> str:
        """`file::Class.method`."""
        names = []
        at: Scope | None = self
        while at is not None and at.parent is not None:
            names.append(at.name)
            at = at.parent
        return f"{self.file}::{'.'.join(reversed(names)) or '<module>'}"

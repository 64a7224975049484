"""What Python training code does, as it was read without running it: calls, loops and exits, and the tests around them."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.code_values import RANK_KINDS, Kind, Origin, Value
from ddpdoctor.evidence.many_objects import in_large_numbers
from ddpdoctor.evidence.remarks import Remark

STOPS = frozenset({"should_training_stop", "should_epoch_stop"})
"""What a callback of transformers sets to end the training: the Trainer asks its own rank's alone."""


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file that was read."""

    file: str
    """The path as it was given; in a notebook with the number of the cell."""
    line: int
    """From 1 on."""
    column: int
    """From 1 on."""
    function: str
    """The function around it, `<module>` outside of any."""


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Guard:
    """A test that decides whether a line is reached."""

    form: str
    """What the test belongs to.

    `main` (the test of `__name__`), `if`, `else`, `while`, `case`, `except`, `and`, `or`, `after` (an early exit before
    the line), `decorator`.
    """
    file: str
    """The file of the test."""
    line: int
    """Where the statement of the test begins."""
    test: str
    """The test as written, shortened; of `except` the exceptions."""
    branch: int
    """0 for the body, and one more for each `elif` or `else`."""
    value: Value
    """What the test depends on."""
    names: tuple[str, ...] = ()
    """The names in the test, as written."""
    of_rank: str = ""
    """`first` where one rank passes, `others` where all but that one pass, else empty."""
    state: bool = False
    """The test asks whether there is a process group, or more than one rank: equal on all ranks."""

    @property
    def of_job(self) -> bool:
        """The test asks for the process group, or for several ranks: it is not that of `__name__`."""
        return self.state and self.form != "main"

    @property
    def by_rank(self) -> Origin | None:
        """The rank that the test depends on for certain, or None."""
        if self.state:
            return None
        return next((one for one in self.value.origins if one.kind in RANK_KINDS and one.note != "uncertain"), None)

    @property
    def by_local(self) -> Origin | None:
        """The value of this rank alone that the test depends on, or None."""
        return self.value.may(Kind.LOCAL)


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """A `with` block around a line."""

    name: str
    """The full name of what is entered: `torch.no_grad`, or `.no_sync` for a method."""
    text: str
    """As written, shortened."""
    line: int
    """Where the block begins."""
    value: Value
    """The object whose method is entered, or what the expression is."""
    plain: bool = True
    """The block is entered always: it is a call, and no expression chooses among several."""
    target: str = ""
    """The id of the function or class of the program that is called."""


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a call."""

    name: str
    """The keyword, or the position as a number."""
    value: Value
    """What the expression can be."""


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A call that matters to distributed training, or one of a function of the program."""

    place: Place
    """Where it stands."""
    text: str
    """As written, shortened."""
    name: str
    """The full name of what is called, `torch.distributed.all_reduce`; `.method` where the object is not known."""
    does: str
    """What the call is for, such as `collective`, `forward` or `save`; empty for other functions of the program."""
    order: int
    """Counts the calls, loops and exits of a function in the order in which they are written."""
    arguments: tuple[Argument, ...] = ()
    """The arguments, where they matter."""
    receiver: Value | None = None
    """The object of a method."""
    target: str = ""
    """The function of the program that is called: the id of its `Function`."""
    guards: tuple[Guard, ...] = ()
    """The tests around it, outermost first."""
    loops: tuple[int, ...] = ()
    """The orders of the loops around it, outermost first."""
    contexts: tuple[Context, ...] = ()
    """The `with` blocks around it, outermost first."""
    variant: str = ""
    """Of a function that is looked at call by call, which of these calls: `@2`."""
    given: tuple[tuple[str, str], ...] = ()
    """Of a function of the program, its parameters with what each gets, as written."""
    used: tuple[str, ...] = ()
    """How the result is used: names of methods, keys and functions that take it."""

    @property
    def id(self) -> str:
        """`file:line:column`, with the variant."""
        return f"{self.place.file}:{self.place.line}:{self.place.column}{self.variant}"

    def argument(self, name: str, position: int | None = None) -> Value | None:
        """The argument of this name, or at this position; None where it is not given."""
        if not self.arguments:
            return None
        number = None if position is None else str(position)
        for argument in self.arguments:
            if argument.name == name or argument.name == number:
                return argument.value
        return None

    def under(self, *names: str) -> Context | None:
        """The innermost block around it whose name ends in one of these, or None."""
        return next((context for context in reversed(self.contexts) if context.name.endswith(names)), None)


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A `for` or `while` loop."""

    place: Place
    """Where it begins."""
    head: str
    """`for x in loader` as written, shortened."""
    order: int
    """The loop's number among the calls, loops and exits of its function."""
    last_order: int
    """The highest number inside of it."""
    over: Value
    """What it goes over; of a `while` its test."""
    counts: bool
    """It counts: `range(...)`, `itertools.count()`, `while`."""
    turns: int | None
    """How often it turns, where a constant says so."""
    starts: Value | None = None
    """Of `range(a, b)` what it begins with; None where that is 0 or not known."""
    binds: tuple[str, ...] = ()
    """The names and attributes that the loop assigns to, in a function that calls `set_epoch`."""
    guards: tuple[Guard, ...] = ()
    """The tests around it."""
    loops: tuple[int, ...] = ()
    """The loops around it."""
    contexts: tuple[Context, ...] = ()
    """The `with` blocks around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """A statement or call that leaves a loop, a function or the program."""

    place: Place
    """Where it stands."""
    form: str
    """`return`, `break`, `continue`, `raise`, `exit`, or `swallow` at the end of an `except` that goes on."""
    order: int
    """Its number among the calls, loops and exits of its function."""
    fails: bool = False
    """It ends the job for all ranks: `raise`, or an exit code that is not 0."""
    since: int = 0
    """Of `swallow`: the number before the first call of the `try`."""
    empty: bool = False
    """It is a `return` of nothing, or of None."""
    guards: tuple[Guard, ...] = ()
    """The tests around it."""
    loops: tuple[int, ...] = ()
    """The loops around it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A part of a list that is chosen by the rank: `files[rank::world_size]`."""

    place: Place
    """Where it stands."""
    text: str
    """As written, shortened."""
    whole: Value
    """What the list can be that the part is taken of."""
    by: Origin
    """The rank in the bounds."""
    of: Origin | None = None
    """The world size, or the number of devices, in the bounds."""
    even: bool = False
    """The function fails where a remainder is left, so that all parts are equally long."""
    strided: bool = False
    """It takes every n-th item, `files[rank::n]`, or those whose number a remainder picks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """An attribute of an object that is assigned to: `p.requires_grad = True`, `model.fc = nn.Linear(512, 10)`."""

    place: Place
    """Where it stands."""
    key: str
    """`model.fc` as written."""
    value: Value
    """What the assigned expression can be."""
    order: int
    """Its number among the calls, loops and exits of its function."""
    owner: Value
    """What is known of the object."""
    guards: tuple[Guard, ...] = ()
    """The tests around it."""
    adds: bool = False
    """What is assigned to is a container, which gets one more: `model.layers.append(layer)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A function of the program; the code of a module outside of all functions is one, too."""

    id: str
    """`file::Class.method`."""
    place: Place
    """Where it begins."""
    calls: tuple[Call, ...] = ()
    """The calls that matter, in order."""
    loops: tuple[Loop, ...] = ()
    """Its loops, in order."""
    exits: tuple[Exit, ...] = ()
    """Its exits, in order."""
    cuts: tuple[Cut, ...] = ()
    """The parts of lists that it chooses by the rank."""
    divided: tuple[str, ...] = ()
    """The calls that draw an order which it divides in two, `order[:n]` and `order[n:]`: their ids."""
    changes: tuple[Change, ...] = ()
    """The attributes of modules and parameters that it assigns to."""
    parameters: tuple[str, ...] = ()
    """The names of its parameters."""
    rebound: tuple[str, ...] = ()
    """Those of its parameters that it assigns to."""
    length: str = ""
    """Of a `__len__`, what it returns as written."""
    counted: Value | None = None
    """Of a `__len__` that returns the length of a list, this list."""
    guards: tuple[Guard, ...] = ()
    """Tests that a decorator puts around the whole function."""
    decorators: tuple[str, ...] = ()
    """The full names of its decorators."""
    within: tuple[Guard, ...] = ()
    """Of a function with decorators, the tests around its `def`."""
    tests: tuple[Guard, ...] = ()
    """The tests in it that ask for a function, and do not call it."""
    overrides: str = ""
    """Of a method, the id of the one of the same name in a base class of the program."""
    entry: bool = False
    """It runs first: module code, or a function that `spawn` starts."""
    loss: Value | None = None
    """Of a step that a framework calls, whose backward it makes itself: the loss that it gives back."""
    hook: str = ""
    """The framework that calls it in every process, as `lightning` does `on_train_epoch_end`; empty of others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A command-line option that the program declares."""

    place: Place
    """Where it is declared."""
    name: str
    """As it is typed: `--local_rank`."""
    default: Value
    """What it is when it is not given."""
    overwritten: bool = False
    """The program assigns to it somewhere."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSetting:
    """An environment variable that the program sets."""

    place: Place
    """Where it is set."""
    name: str
    """The variable, as in `os.environ`."""
    value: Value
    """What it is set to."""
    always: bool
    """It is overwritten whatever it was before: no test of it, and no `setdefault`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedPart:
    """A layer with parameters that a model makes, and that no other line of its programs names."""

    place: Place
    """Where it is made."""
    cls: str
    """The model's class: `file::Class`."""
    name: str
    """The attribute of the model that holds it."""
    layer: str
    """The layer: `nn.Linear`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Module:
    """One file that was read."""

    file: str
    """The path."""
    functions: tuple[Function, ...] = ()
    """Its functions, its own code first; empty where it has nothing to do with distributed training."""
    options: tuple[Option, ...] = ()
    """The command-line options that it declares."""
    settings: tuple[EnvironmentSetting, ...] = ()
    """The environment variables that it sets."""
    reads: tuple[str, ...] = ()
    """The environment variables that it reads."""
    words: tuple[str, ...] = ()
    """All names of functions and attributes in it that rules ask about: `set_epoch`, `set_device`."""
    frameworks: tuple[str, ...] = ()
    """Frameworks that it imports, such as `lightning`."""
    data_modules: tuple[str, ...] = ()
    """Its classes that are Lightning's data modules."""
    main: bool = False
    """It tests `__name__ == "__main__"`."""
    remarks: tuple[Remark, ...] = ()
    """Its comments that silence findings."""
    unused: tuple[UnusedPart, ...] = ()
    """Layers of its models that nothing uses."""
    loads: tuple[Call, ...] = ()
    """Of a file that belongs to no program of several ranks, where it loads weights into models as they were saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A file that is started, with the files of the same run that it imports."""

    root: str
    """The file that is started."""
    files: tuple[str, ...]
    """The file itself and all that it imports."""
    started_by: str = ""
    """How a launch script that was read starts it: `torchrun`, `srun`, or empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingCode:
    """All Python code that was read, as far as it trains on several ranks."""

    modules: tuple[Module, ...]
    """Every file that could be read."""
    programs: tuple[Program, ...] = ()
    """The programs among them that train on several ranks."""


KINDS = {TrainingCode: "training code"}

"""Where the lines that matter stand in the user's source: in which loops, under which conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """A statement that leaves a loop, passes over the rest of a turn, or leaves a function before its end."""

    line: int
    """The line of the statement, from 1."""
    word: str
    """`break`, `continue` or `return`, or a handler: `except ValueError`."""
    test: str = ""
    """The test of an `if` in the loop, or in the function, that it stands under, as written; empty without one.

    The innermost, behind the one that tells ranks apart where another does: `rank == 0 and step > 9`.
    """
    by_rank: bool = False
    """Whether that test is one of the rank: see `Condition.by_rank`."""
    branch: int = 0
    """0 where it stands under the test, 1 in the `else` of it."""
    tested: int = 0
    """The line of that `if`; 0 without one, and in cases of older versions."""

    @property
    def condition(self) -> Condition:
        """What holds where it is taken."""
        return Condition(line=self.tested or self.line, test=self.test, branch=self.branch, by_rank=self.by_rank)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """A `for` or `while` around a line."""

    line: int
    """The line of its head."""
    head: str
    """The head as written."""
    skips: tuple[int, ...] = ()
    """The lines of its own `continue`s."""
    jumps: tuple[Jump, ...] = ()
    """Its own `break`s, `continue`s and `return`s, by line; empty in cases of older versions."""
    awaits: str = ""
    """The condition that ends it, where its turns only sleep: `os.path.exists(path)`; empty of other loops, and in cases of
    older versions."""
    counter: str = ""
    """The name that counts its turns, by `range`, `enumerate` or a name such as `step`; empty of other loops, and in cases of
    older versions."""
    fixed: bool = False
    """Whether its head says how often it turns, by numbers of the file alone: `range(25)`; False in cases of older versions."""


DESTRUCTOR = "def __del__"
SIGNAL_HANDLER = "signal handler "
"""In front of the name of the function that handles it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """An `if`, or an `except`, around a line."""

    line: int
    """The line of the `if` or `elif` whose test it is."""
    test: str
    """The test as written; `except ValueError` for a handler, `DESTRUCTOR` for a call that a destructor makes, and
    `SIGNAL_HANDLER` in front of its name for one in the handler of a signal."""
    branch: int
    """The branch that the line is in: 0 is the body, and every `elif` or `else` adds one."""
    by_rank: bool = False
    """Whether a name stands in the test that the file assigns the rank to, as in `r = dist.get_rank()`."""
    elif_: bool = False
    """Whether the test is that of an `elif`, and the line in its body."""
    first: int = 0
    """The line of the `if` from which the branches are counted, where another one has the test; else 0."""
    selects: str = ""
    """The ranks of which the test is true, where the file tells what its names hold: `rank == 0`; else empty."""

    def excludes(self, other: Condition) -> bool:
        """Whether both are branches of one statement, so that a run takes one of them at most."""
        return (self.first or self.line) == (other.first or other.line) and self.branch != other.branch

    @property
    def holds(self) -> bool:
        """Whether the test is true where the line runs."""
        return self.branch == 0 or self.elif_

    @property
    def is_if(self) -> bool:
        """Whether it is an `if`, and not an `except`, a `with`, a decorator, a destructor or the handler of a signal."""
        return not self.is_block and not self.asks

    @property
    def is_block(self) -> bool:
        """Whether it is an `except`, a `with` and the like, without a test: what its line is inside of."""
        return self.test.startswith(("except", "with ", "@", DESTRUCTOR, SIGNAL_HANDLER))

    @property
    def handles_a_signal(self) -> bool:
        """Whether it is the handler of a signal, which runs when one arrives."""
        return self.test.startswith(SIGNAL_HANDLER)

    @property
    def is_cache(self) -> bool:
        """Whether it is a decorator whose function does not run again for what it was asked before."""
        return self.test.startswith("@") and not self.by_rank

    @property
    def asks(self) -> bool:
        """Whether it is no test, but the value by which a statement asks a framework for something: `sync_dist=rank == 0`."""
        name, is_set, value = self.test.partition("=")
        return bool(is_set) and name.isidentifier() and not value.startswith("=")


_HOW_LONG = re.compile(r"(?:^|_)(?:epochs?|steps?|iter(?:ation)?s?|batches|updates|rounds|length)$")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankValue:
    """A value that is not the same on every rank, because the source computes it from the rank."""

    line: int
    """The line of its statement."""
    text: str
    """As written: `epochs - (rank == 1)`."""
    targets: tuple[str, ...] = ()
    """What its statement assigns to, as written."""
    compares: bool = True
    """Whether it compares the rank with something; `seed + rank` does not, and most programs have some like it."""
    keyword: str = ""
    """The name of the argument that it is passed as, where the source writes one."""

    in_head: bool = False
    """Whether it is the end of the `range` of a loop around the line, and all that depends on the rank there."""

    def bounds(self, loops: Sequence[Loop]) -> bool:
        """Whether one of these loops has in its head the value, or what it is assigned to."""
        return self.in_head or any(
            target in re.findall(r"[\w.]+", loop.head) for target in self.targets for loop in loops
        )

    @property
    def limits(self) -> bool:
        """Whether it is passed as an argument that says how long a loop is: `max_epochs=4 - rank`."""
        return _HOW_LONG.search(self.keyword) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A statement by which the user's code has a framework do something later, such as `control.should_training_stop = True`."""

    file: str
    """As the interpreter knows it."""
    line: int
    """The line of the statement, from 1."""
    function: str
    """The name of its function."""
    text: str
    """The statement as written."""
    wants: str
    """`stop`: that the loop or the program ends; `exit`: that the program ends, by a call such as `sys.exit`; `call`: that the
    framework makes calls of its own (evaluate, save, reduce); `accumulate`: that gradients of some forwards are not reduced
    (`no_sync`, `accumulate`); `backward`: a backward; `setting`: it writes an option of a parameter group, such as
    `group["lr"]`; `weights`: it writes weights, such as `head.weight.data.mul_(0.9)`; `freeze`: it takes weights out of the
    training, such as `head.requires_grad_(False)`; `collective`: nothing, but it is a call
    that all ranks must make and that a test of the rank leaves to some, as `lint` finds (DDP730)."""
    conditions: tuple[Condition, ...] = ()
    """The conditions of the function around it, outermost first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierCall:
    """A collective, send or receive that a function calls on its way to a line."""

    line: int
    """The line of the call, from 1."""
    op: str
    """The function of torch.distributed: `all_reduce`."""
    grouped: bool = False
    """Whether it may be of a process group of its own, by its arguments; False in cases of older versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches:
    """An `if` that every way to a line passes, with the collectives of its branches, in which nothing else communicates."""

    condition: Condition
    """What holds in its first branch."""
    taken: tuple[EarlierCall, ...]
    """The collectives of that branch, in order."""
    other: tuple[EarlierCall, ...]
    """Those of the `else`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodePlace:
    """One line of one function."""

    file: str
    """As the interpreter knows it."""
    line: int
    """The number of the line, from 1."""
    function: str
    """The name of the function."""
    loops: tuple[Loop, ...] = ()
    """The loops of the function around the line, outermost first."""
    conditions: tuple[Condition, ...] = ()
    """The conditions of the function around the line, outermost first."""
    exits: tuple[Jump, ...] = ()
    """The `return`s under a condition by which a run may leave the function above or below this line, and the handlers that catch
    an error of this line and go on (`except ValueError`); empty in cases of older versions."""
    calls: tuple[str, ...] = ()
    """The names that the statement on this line calls, as written: `input`, `sys.stdin.readline`."""
    rank_values: tuple[RankValue, ...] = ()
    """The values that depend on the rank in statements of the function up to this line; empty in cases of older versions."""
    collectives: tuple[EarlierCall, ...] = ()
    """The collectives, sends and receives that every way to this line passes in its function, since the head of the innermost
    loop around it, in order of their lines; empty in cases of older versions."""
    straight: bool = False
    """Whether nothing in front of the first of `collectives` may communicate; False in cases of older versions."""
    branches: tuple[Branches, ...] = ()
    """The `if`s with collectives that every way to this line passes since the head of the innermost loop; empty in cases
    of older versions."""
    grouped: bool = False
    """Whether the statement may make a call of a process group of its own, by its arguments; False in cases of older versions."""
    excerpt: tuple[str, ...] = ()
    """The text of this line and of those around it; empty in cases of older versions."""
    excerpt_from: int = 1
    """The number of the first line of `excerpt`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCode:
    """The lines of the user's code that ranks were at, where its files could be read."""

    places: tuple[CodePlace, ...] = ()
    """Each line once."""
    requests: tuple[Request, ...] = ()
    """What the user's own files, as far as they were read, ask of frameworks, under a condition unless it is to accumulate or a
    setting.

    And, where all ranks of a job wait for each other, the calls that only some of them make."""

    def and_of(self, other: SourceCode) -> SourceCode:
        """This and `other` together, each thing once."""
        return SourceCode(
            places=tuple(dict.fromkeys((*self.places, *other.places))),
            requests=tuple(dict.fromkeys((*self.requests, *other.requests))),
        )

    def at(self, file: str, line: int) -> CodePlace | None:
        """The place of this line, or None where its file could not be read."""
        return next((place for place in self.places if place.line == line and place.file == file), None)


def place_of(code: SourceCode | None, frame: Frame | None) -> CodePlace | None:
    """The place of the line of a frame; None where either is not known, or its file could not be read."""
    return code.at(frame.file, frame.line) if code is not None and frame is not None else None


KINDS = {SourceCode: "source code"}

"""What a value in Python code can be, or depends on, as it was read without running it."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum

from ddpdoctor.evidence.many_objects import in_large_numbers


class Kind(Enum):
    """What a value is known to be, or to depend on."""

    GLOBAL_RANK = "global rank"
    LOCAL_RANK = "local rank"
    SPAWN_INDEX = "index of a spawned process"
    RANK = "depends on the rank"
    WORLD_SIZE = "world size"
    DEVICE_COUNT = "number of devices"
    SOME_RANKS = "object that only some ranks have"
    LOCAL = "differs between ranks"
    SHARED = "equal on all ranks"
    CONSTANT = "constant"
    MODEL = "model"
    WRAPPED = "wrapped model"
    BARE = "model taken out of its wrapper"
    SAMPLER = "sampler"
    LOADER = "data loader"
    DATASET = "data set"
    CPU_TENSOR = "tensor on the CPU"
    UNORDERED = "list in no fixed order"
    INSTANCE = "object of a class of the program"
    OBJECT = "object of a library's class"
    FUNCTION = "function that is not called"
    UNKNOWN = "unknown"

    __hash__ = object.__hash__  # members are compared by identity


RANK_KINDS = frozenset({Kind.GLOBAL_RANK, Kind.LOCAL_RANK, Kind.SPAWN_INDEX, Kind.RANK})
"""The kinds that differ between ranks because the rank itself is in them."""


OF_TRAINER = "of a Trainer"
"""The note of the wrapped model that a Trainer of transformers gives to a step that the program has written."""

PARSED = "parsed from the command line"
"""The text of an object whose fields a parser of the command line has filled in."""
COPY = "copy"
"""The note of a model that was copied from a wrapped one, such as the average of its weights."""
_LISTINGS = ("listdir", "glob", "iterdir", "scandir", "os.walk")
"""Parts of the text of an expression that lists what a folder holds."""


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One step in the chain from a value to what it comes from."""

    text: str
    """The assignment, parameter or call as written, shortened."""
    file: str
    """The file of the step."""
    line: int
    """The line of the step."""


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """One thing that a value can be."""

    kind: Kind
    """What it is."""
    text: str = ""
    """The expression or name that it begins with: `RANK`, `dist.get_rank()`, the literal of a constant."""
    made: str = ""
    """`file:line:column` of the call that made an object; the same in the fact about that call."""
    note: str = ""
    """What is further known: the class of an object, `argument` for a command-line option."""
    why: tuple[Link, ...] = ()
    """The chain from the value, nearest step first, to the origin."""
    members: tuple[str, str] = ("", "")
    """Of a test that chooses between two members of a class: the one where it holds, and the other."""

    @property
    def from_listing(self) -> bool:
        """Whether the text lists what a folder holds."""
        return any(word in self.text for word in _LISTINGS)

    def by(self, link: Link) -> Origin:
        """The same origin with one more step in its chain; in a quarter of the time that `dataclasses.replace` takes."""
        return Origin(
            kind=self.kind, text=self.text, made=self.made, note=self.note, why=(link, *self.why), members=self.members
        )


@in_large_numbers
@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """What is known of an expression: the expression, and everything that it can be."""

    text: str = ""
    """As written, shortened."""
    origins: tuple[Origin, ...] = ()
    """Every alternative; empty where nothing is known."""

    def may(self, *kinds: Kind) -> Origin | None:
        """The first alternative of one of these kinds, or None."""
        for origin in self.origins:
            if origin.kind in kinds:
                return origin
        return None

    def only(self, *kinds: Kind) -> Origin | None:
        """The first alternative of these kinds where, constants apart, there is no other; else None."""
        first: Origin | None = None
        for origin in self.origins:
            if origin.kind is Kind.CONSTANT:
                continue
            if origin.kind not in kinds:
                return None
            first = first or origin
        return first

    @property
    def constant(self) -> str | None:
        """The literal, as Python writes it, of a value that can be nothing else; else None."""
        one = self.origins[0] if len(self.origins) == 1 else None
        return one.text if one is not None and one.kind is Kind.CONSTANT else None

    @property
    def made(self) -> AbstractSet[str]:
        """The places of the calls that made it, where it is an object, in the order of its alternatives."""
        return {origin.made: None for origin in self.origins if origin.made}.keys()

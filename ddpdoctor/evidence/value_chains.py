"""Where the program decides what a recorded line gives, and which of its statements write into tensors: from its source alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.evidence.frames import Frame

DRAWS = "draws"
"""In place of an argument: all that a sampler draws an order with, in the function at the line."""
HOOK = "hook"
"""In place of an argument: the communication hook that the call at the line registers."""
LOADER = "loader"
"""In place of an argument: what the loop at the line goes over, where a data loader is made for it."""
COUNT = "number of parameters"
"""What a group of an optimizer has beside its options: see `optimizer_settings.py` of the agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CodeLine:
    """A line of the program."""

    file: str
    """As the interpreter knows it."""
    line: int
    """The number of the line, from 1."""
    function: str
    """The name of its function."""
    text: str
    """The expression that matters there, as written, shortened."""

    @property
    def frame(self) -> Frame:
        """The line as a stack gives it."""
        return Frame(file=self.file, line=self.line, function=self.function)


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChain:
    """What an argument of a recorded call comes from."""

    at: Frame
    """The line of the call."""
    argument: str
    """The argument's name, `DRAWS`, `HOOK` or `LOADER`; empty for all that the call is given."""
    entry: CodeLine | None = None
    """The only place at which it begins to depend on the process; None where there is none, or several."""
    reads: str = ""
    """What is read there: `rank`, `part` (its own of the data), `local` (a clock) or `seed`; empty without `entry`."""
    test: CodeLine | None = None
    """The statement that a test decides which depends on `entry`, or the test where it leaves by another way."""
    origin: CodeLine | None = None
    """Where it is written down, or read, and comes from as it is; None where these are several lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorWrite:
    """A statement that writes into a tensor, outside of `optimizer.step()`, `load_state_dict` and the making of a model."""

    at: CodeLine
    """The statement."""
    into: str
    """What it may write into: `weights`, `gradients`, `buffers`, or `copies` of a model that no wrapper holds."""
    names: tuple[str, ...] = ()
    """The attributes that it reaches the tensor by, such as `weight`; empty where it goes over all of a model."""
    called: CodeLine | None = None
    """The only call of its function; None where there is none, or several."""
    by_process: bool = False
    """Whether the rank, a seed, a clock or a batch may decide what it writes, or whether it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochCall:
    """A call that tells a sampler its epoch, `sampler.set_epoch(epoch)`."""

    at: CodeLine
    """The call."""
    test: CodeLine | None = None
    """The innermost test around it; None without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardedModel:
    """A model that is divided among the ranks."""

    made: CodeLine
    """Where it is made."""
    seed: CodeLine | None = None
    """The only call before it that seeds torch by the rank; None where there is none, or several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueChains:
    """What was found in the source of the program."""

    chains: tuple[ValueChain, ...] = ()
    """One for each argument that was asked for."""
    writes: tuple[TensorWrite, ...] = ()
    """All such statements; none where not all files could be read."""
    epoch_calls: tuple[EpochCall, ...] = ()
    """All calls of `set_epoch`, but for those within a method of that name, which pass it on."""
    sharded: tuple[ShardedModel, ...] = ()
    """The models that `fully_shard` or a wrapper of FSDP divides."""
    is_whole: bool = True
    """Whether all files of the program were read."""

    def of(self, at: Frame | None, argument: str) -> ValueChain | None:
        """The chain of an argument of the call on a line."""
        return next((one for one in self.chains if one.at == at and one.argument == argument), None)

    def into(self, what: str) -> Iterator[TensorWrite]:
        """The statements that may write into `weights`, `gradients`, `buffers` or `copies`."""
        return (one for one in self.writes if one.into == what)


def argument_of(setting: str) -> str:
    """The argument that gives an option of an optimizer's group: `lr` of `initial_lr[1]`, `params` of how many there are."""
    plain = setting.partition("[")[0].removeprefix("initial_")
    return "params" if plain == COUNT else plain


KINDS = {ValueChains: "value chains in the source"}

"""The format of `PID.texts`: a JSON line `[kind, number, fields]` for each text that records of the call ring refer to.

`kind` is the name of the fields' type. Each kind counts its texts from 1. `HandledError` and `Joining` belong to no record and
have the number 0.
"""

from typing import NamedTuple, TypeAlias

from .error import Error
from .source_line import SourceLine


class Op(NamedTuple):
    """A function of `torch.distributed`."""

    name: str
    """Its name, such as `all_reduce`."""


class Group(NamedTuple):
    """A process group, as the flight recorder names it."""

    name: str
    """Its name, which is the same on all ranks."""
    description: str
    """Its description, such as `default_pg`."""
    backend: str
    """Its backend, such as `nccl`."""
    ranks: tuple[int, ...] = ()
    """The global ranks of its members, in their order in the group; empty for the group of all ranks."""


class ReduceOp(NamedTuple):
    """A reduce operation."""

    name: str
    """Its name, such as `SUM`."""


class TensorSpec(NamedTuple):
    """What a tensor must have in common with the tensors of the other ranks."""

    shape: tuple[int, ...]
    """The size of each dimension; empty for a scalar."""
    dtype: str
    """Its dtype, such as `float32`."""


class Members(NamedTuple):
    """The ranks that `new_group` was called with."""

    ranks: tuple[int, ...]
    """Global ranks, sorted; all ranks of the job where none were given."""


class Place(NamedTuple):
    """The lines of the user's code and of frameworks that led to an event."""

    lines: tuple[SourceLine, ...]
    """The innermost first. In a thread other than the main one the line of `threading` that started it comes last."""


class Wrapped(NamedTuple):
    """A model that the rank gave to DistributedDataParallel, to be averaged over all ranks; its number counts these."""

    dtypes: tuple[tuple[str, int], ...]
    """The dtypes of its parameters, such as `float32`, each with the number of tensors that have it; sorted."""
    place: int
    """The number of the `Place` that wrapped it."""


class HandledError(NamedTuple):
    """An error that the rank was handling while it made a collective."""

    group: str
    """The name of the collective's process group."""
    seq: int
    """The number of the collective in that group."""
    error: Error
    """The error; its stack has the user's own lines only."""


class EnvWrite(NamedTuple):
    """A line of the user's that set an environment variable."""

    name: str
    """The variable, as in `os.environ`."""
    value: str
    """Its new value."""
    place: SourceLine
    """The innermost of the user's lines; it may call a package that sets the variable."""


class Joining(NamedTuple):
    """What the rank is about to join the others with."""

    debug: str
    """The debug level of torch.distributed, `INFO` or `DETAIL`, which the script may have set itself; empty where it is off."""
    rendezvous: str
    """Where it looks for the other ranks, as `HOST:PORT`; empty where that is no address."""
    writes: tuple[EnvWrite, ...] = ()
    """The lines that set MASTER_ADDR and MASTER_PORT last, where the program did."""


Text: TypeAlias = Op | Group | ReduceOp | TensorSpec | Members | Place | Wrapped | HandledError | Joining

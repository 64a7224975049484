"""How ranks ended and how far they came: from watching them, or from what the logs say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ddpdoctor.evidence.bounds import need, need_ranks
from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """An exception that ended a rank, or that it printed."""

    type: str
    """The name of its class without the module."""
    message: str
    """The whole message."""
    stack: tuple[Frame, ...] = ()
    """Innermost first; empty where it is not known."""
    cause: RankError | None = None
    """The exception that it was raised from, or that a DataLoader worker or a spawned process passed on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadError:
    """An exception that ended a thread of a rank; the rank itself continued."""

    thread: str
    """The name of the thread."""
    error: RankError
    """The exception that left the thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadErrors:
    """The threads of one rank that an exception ended."""

    each: tuple[ThreadError, ...]
    """In the order in which they were raised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExit:
    """How one rank ended, as far as it is known."""

    exit_code: int | None
    """The process's own code, or -N for signal N; None where it still runs or nobody saw its end."""
    error: RankError | None = None
    """The exception that ended it."""
    ended_by_launcher: bool = False
    """Whether its launcher, or ddpdoctor, ended it because of another rank's failure."""
    ended_in: tuple[Frame, ...] = ()
    """Where its main thread was when its launcher was about to end it, innermost first; empty where that is not known."""
    ended_at: float | None = None
    """Seconds since the epoch."""
    order: int | None = None
    """Its place among all ends that one observer saw, from 0."""
    tail: tuple[str, ...] = ()
    """The last lines of what it printed."""
    left_by: tuple[Frame, ...] = ()
    """Where it called `sys.exit`, `exit` or `os._exit` without a failure, innermost first; empty where it did not."""
    oom_kills: int | None = None
    """How many processes the kernel killed in its cgroup for memory."""
    memory_limit_bytes: int | None = None
    """The memory limit of its cgroup."""
    memory_peak_bytes: int | None = None
    """The most memory that its cgroup used."""
    kernel_said: str | None = None
    """The line of the kernel log about it."""
    pid: int | None = None
    """Its process id."""
    native_stack: tuple[Frame, ...] = ()
    """Where Python was when native code crashed, innermost first."""
    debug: str | None = None
    """The debug level of torch.distributed in the rank, as of TORCH_DISTRIBUTED_DEBUG; None where it was off."""

    @property
    def signal(self) -> int | None:
        """The number of the signal that ended it, or None."""
        if self.exit_code is None:
            return None
        if self.exit_code < 0:
            return -self.exit_code
        return self.exit_code - 128 if 128 < self.exit_code < 128 + 65 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCount:
    """How far one rank came. A count is None where nothing could be hooked."""

    forwards: int | None = None
    """Forwards of its wrapped models."""
    steps: int | None = None
    """Steps of its optimizers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCall:
    """One call of torch.distributed as the user's code made it: what the flight recorder cannot see."""

    op: str
    """The function, such as `all_reduce`."""
    group: str
    """The group's name as the flight recorder has it."""
    seq: int | None
    """The number that the flight recorder gave the call in that group, for a send or recv that of the agent; None where there
    is none."""
    reduce_op: str | None = None
    """Such as `SUM`; None where the operation reduces nothing."""
    root: int | None = None
    """The global rank of the root of a broadcast, reduce, gather or scatter."""
    peer: int | None = None
    """The global rank of the partner of a send or recv, None for any."""
    tag: int = 0
    """The tag of a send or recv."""
    place: Frame | None = None
    """The user's own line."""
    returned: bool = True
    """False while the call waits."""
    began_ns: int | None = None
    """When it was called, in nanoseconds since the epoch; None of collectives, whose recorder tells it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """Where an iteration of one rank falls among its collectives."""

    iteration: int
    """How many batches the rank had drawn, or how many forwards its wrapped model had made, when it began."""
    seq: int
    """How many calls of the group that reduces its gradients had been made when it began."""
    in_pass: int | None = None
    """The number of its batch in this pass over the data, from 1; None without a DataLoader."""
    of: int | None = None
    """How many batches the DataLoader said that a pass has; None where it did not."""
    forwards: int | None = None
    """How many training forwards had been made when it began; None where the record does not reach back so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """One training forward of a rank's wrapped models."""

    number: int
    """Counted from 1 on each rank."""
    place: Frame
    """The user's own line that called it."""
    turn: int | None = None
    """The value of the variable that counts the turns of the loop around that line, where it has one."""
    stack: tuple[Frame, ...] = ()
    """The lines of the user's code and of frameworks that led to it, innermost first; empty in cases of older versions."""
    steps: int | None = None
    """How many optimizer steps the rank had made when it began; None in cases of older versions."""
    reduces: bool | None = None
    """Whether its backward reduces gradients, which it does not under `no_sync`; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGroup:
    """One call of `new_group`."""

    ranks: tuple[int, ...]
    """The members that were asked for."""
    returned: bool
    """Whether the call has returned."""
    name: str | None = None
    """The name that PyTorch gave the group; None where the call has not returned or made none."""
    place: Frame | None = None
    """The user's own line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMembers:
    """A process group that a rank has used, other than that of all ranks."""

    group: str
    """Its name as the flight recorder has it."""
    ranks: tuple[int, ...]
    """The global ranks of its members, in their order in the group."""

    def __post_init__(self) -> None:
        need(min(self.ranks, default=0) >= 0, f"the process group {self.group} has a member with a negative rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """An error that the rank was handling, in an `except`, a `finally` or an `__exit__`, as it made a call."""

    group: str
    """The group of the call."""
    seq: int
    """The number of the call in that group."""
    error: RankError
    """The exception; its stack has the user's own lines only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WrappedModel:
    """A model that the rank gave to DistributedDataParallel, to be averaged over all ranks."""

    dtypes: Mapping[str, int]
    """The number of its parameters (tensors) by dtype, such as `float32`."""
    place: Frame | None = None
    """The user's line that wrapped it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCalls:
    """What the agent recorded on one rank, oldest first."""

    calls: tuple[CollectiveCall, ...] = ()
    """Its latest collectives, sends and receives."""
    steps: tuple[StepMark, ...] = ()
    """Its latest iterations."""
    forwards: tuple[Forward, ...] = ()
    """Its latest training forwards."""
    new_groups: tuple[NewGroup, ...] = ()
    """Its calls of `new_group`."""
    groups: tuple[GroupMembers, ...] = ()
    """The groups that it used, as far as their members are known."""
    handled: tuple[Handled, ...] = ()
    """The first calls that it made while it handled an error, one for each line that raised one."""
    wrapped: tuple[WrappedModel, ...] = ()
    """The first models that it wrapped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSize:
    """The size of the whole job."""

    ranks: int
    """The number of ranks, those included that nobody could look at."""

    def __post_init__(self) -> None:
        need_ranks(self.ranks, "the number of ranks")


@dataclass(frozen=True, slots=True, kw_only=True)
class EndRequest:
    """A signal by which somebody had the whole job end: a person, a scheduler or a time limit."""

    signal: int
    """The number of the signal."""
    at: float
    """When it arrived, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingGradients:
    """Parameters of a rank's wrapped models without a gradient, where others of their model have one, as the job hung."""

    names: tuple[str, ...]
    """Their names; of many the first ones."""
    total: int
    """How many parameters there are, those without a name here included."""


KINDS = {
    MissingGradients: "parameters without a gradient",
    RankExit: "exit status",
    ThreadErrors: "exceptions of threads",
    StepCount: "step count",
    CollectiveCalls: "record of collective calls",
    JobSize: "number of ranks",
    EndRequest: "request to end the job",
}

"""What PyTorch's flight recorder knew on one rank, in columns: thousands of ranks fit in memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ddpdoctor.evidence.bounds import need, need_places
from ddpdoctor.evidence.frames import Frame


class State(IntEnum):
    """How far a recorded call got."""

    SCHEDULED = 0
    STARTED = 1
    DONE = 2


DEFAULT_GROUP = "default_pg"  # the description that torch gives it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessGroup:
    """A process group as one rank's recorder knows it."""

    backend: str
    """`nccl` or `gloo`."""
    name: str
    """The name that torch gave it."""
    description: str
    """The description that the program gave it."""
    number: int | None = None
    """Its number among the groups of this rank, in the order in which they were made; None where the dump does not tell."""
    ranks: tuple[int, ...] | None = None
    """The global ranks of its members; None where the recorder does not say (gloo)."""
    last_enqueued: int | None = None
    """The number of its last call by the dump's table of statuses: of its sends if the last was one. None without a table."""
    last_completed: int | None = None
    """The number of the last call that was completed, by the same table."""
    halves: int | None = None
    """How many sends and receives the rank had issued in it by its last entry, each one of a batch counted; None where the
    recorder does not count them."""

    def __post_init__(self) -> None:
        need(min(self.ranks or (0,)) >= 0, f"the process group {self.name} has a member with a negative rank")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupStatus:
    """A row of the dump's table of statuses whose group the dump does not name: no entry of that group is in it."""

    number: int
    """The number of the group among the groups of this rank."""
    last_enqueued: int | None
    """As in `ProcessGroup`."""
    last_completed: int | None
    """As in `ProcessGroup`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What was called, as far as the recorder sees it: neither the reduce operation nor the root is in there."""

    group: int
    """The position of its group in `FlightRecord.groups`."""
    op: str
    """The recorder's name without the backend, such as `all_reduce`."""
    point_to_point: bool = False
    """Whether it is a send or a recv."""
    source: int | None = None
    """The sending rank of a point-to-point call, counted within the group."""
    target: int | None = None
    """The receiving rank of a point-to-point call, counted within the group."""
    tag: int = 0
    """The tag of a point-to-point call, where the agent tells it."""
    input_sizes: tuple[tuple[int, ...], ...] = ()
    """One tuple per tensor."""
    input_dtypes: tuple[str, ...] = ()
    """One name per tensor."""
    output_sizes: tuple[tuple[int, ...], ...] = ()
    """One tuple per tensor."""
    output_dtypes: tuple[str, ...] = ()
    """One name per tensor."""
    timeout_ms: int | None = None
    """After how many milliseconds the watchdog ends the job."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightRecord:
    """The flight recorder's ring buffer of one rank, oldest entry first.

    Columns are equally long; `i` is the position of an entry in all of them.
    """

    version: str
    """The version of the dump's format."""
    taken_at: float | None = None
    """When the dump was made, in seconds since the epoch; None where that is not known."""
    noted_at: float | None = None
    """When the dump was made, by what the recorder noted then: calls that had ended, which no watchdog had noted before. In
    seconds since the epoch; None where there were none."""
    groups: tuple[ProcessGroup, ...]
    """The process groups of the rank."""
    statuses: tuple[GroupStatus, ...] = ()
    """The rows of the table of statuses that belong to some of `groups`, the dump does not tell to which."""
    calls: tuple[Call, ...]
    """The distinct calls."""
    frames: tuple[Frame, ...] = ()
    """The distinct lines of all stacks."""
    stacks: tuple[tuple[int, ...], ...] = ((),)
    """The distinct stacks as positions in `frames`, innermost first; empty where none was recorded."""
    lost: int = 0
    """How many entries were made before the oldest one that the ring still holds."""
    call: tuple[int, ...] = ()
    """The position in `calls` of what entry `i` called."""
    seq: tuple[int, ...] = ()
    """The number of entry `i` in its group; among its point-to-point calls, for those."""
    stack: tuple[int, ...] = ()
    """The position in `stacks` of where entry `i` was made."""
    state: tuple[State, ...] = ()
    """How far entry `i` got."""
    created_ns: tuple[int, ...] = ()
    """When entry `i` was made, in nanoseconds since the epoch."""
    completed_ns: tuple[int, ...] = ()
    """When entry `i` was seen to be complete, in nanoseconds since the epoch, 0 where it was not; empty where the recorder
    does not say of any (gloo)."""

    def __post_init__(self) -> None:
        columns = (self.call, self.seq, self.stack, self.state, self.created_ns)
        need(len({len(column) for column in columns}) == 1, "the columns of a flight record are not equally long")
        need_places(self.call, self.calls, "call")
        need_places(self.stack, self.stacks, "stack")
        need_places((call.group for call in self.calls), self.groups, "calls")
        for stack in self.stacks:
            need_places(stack, self.frames, "stacks")

    def __len__(self) -> int:
        return len(self.seq)

    def stack_of(self, entry: int) -> tuple[Frame, ...]:
        """The Python stack of entry number `entry`, innermost first."""
        return tuple(self.frames[position] for position in self.stacks[self.stack[entry]])


KINDS = {FlightRecord: "flight-recorder dump"}

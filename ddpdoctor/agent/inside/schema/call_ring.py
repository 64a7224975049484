"""The format of `PID.ring`: a header with a rank's counters, and a ring buffer with one record for each event.

Every record takes `RECORD_BYTES` and begins with its number, from 0, and its kind; the fields of the kind's type follow. The
numbers of texts (function, process group, line, ...) refer to `PID.texts`, see `schema.call_texts`; 0 means none.
"""

from struct import Struct
from typing import NamedTuple, TypeAlias

MAGIC = b"ddpdring"
VERSION = 7
RING = 4096  # records; 256 KiB a rank
RECORD_BYTES = 64
HEADER_BYTES = 256
NO_SEQ = -1  # a backend that does not number its collectives (MPI), or no process group
NO_RANK = -1
NO_COUNT = -1
MOST_DIGITS = 10  # a rank has fewer, so that its number fits into its field

PREAMBLE = Struct("<8sI")  # magic and version, which every version of the file begins with
IDENTITY = Struct("<iiiiQ")
IDENTITY_OFFSET = 16
COUNTERS = Struct("<QQQqQQQQ")
COUNTERS_OFFSET = IDENTITY_OFFSET + IDENTITY.size
PREFIX = Struct("<QQ")  # number and kind, which every record begins with
BEGAN_AND_RETURNED = Struct("<qq")
BEGAN_OFFSET = 16
RETURNED = Struct("<q")  # `returned_ns` of the records of calls
RETURNED_OFFSET = 24


class Header(NamedTuple):
    """Which process this is (`IDENTITY`), and how far it came (`COUNTERS`)."""

    rank: int
    """Its rank in the job, or `NO_RANK` before it is known."""
    world_size: int
    """The number of ranks in the job, or 0 before it is known."""
    restart: int = 0
    """How often the launcher has restarted the job's processes (TORCHELASTIC_RESTART_COUNT)."""
    local_rank: int = NO_RANK
    """LOCAL_RANK, or `NO_RANK`. In an elastic job a process takes over the local rank of the process that it replaces."""
    launcher: int = 0
    """The process that started this one."""
    written: int = 0
    """The number of records ever written; the ring holds the last `RING` of them."""
    forwards: int = 0
    """The number of training forwards of wrapped models."""
    steps: int = 0
    """The number of optimizer steps."""
    last_ns: int = 0
    """When a counter last changed, in nanoseconds since the epoch."""
    returned: int = 0
    """How often a recorded call has returned, or a wait for an asynchronous send or receive has ended."""
    written_in_training: int = 0
    """The same as `written`, without what threads did that the program started beside the one that trains."""
    returned_in_training: int = 0
    """The same as `returned`, without those threads."""
    thread: int = 0
    """The kernel's number of the thread that made the last training forward or optimizer step; 0 before there was any."""


class Collective(NamedTuple):
    """A call of a collective by the user's code."""

    began_ns: int
    """When it was called, in nanoseconds since the epoch."""
    returned_ns: int
    """When it returned, with or without an exception; 0 while it runs."""
    seq: int
    """The number that the flight recorder gives the call in its group, or `NO_SEQ`."""
    root: int
    """The global rank of the root of a broadcast, reduce, gather or scatter, or `NO_RANK`."""
    op: int
    """Text number: the function."""
    group: int
    """Text number: the process group."""
    place: int
    """Text number: the user's lines that led to the call."""
    reduce_op: int
    """Text number: the reduce operation, of collectives that have one."""
    tensor: int
    """Text number: the tensor, of collectives to which each rank gives one."""


class PointToPoint(NamedTuple):
    """A call of a send or receive by the user's code."""

    began_ns: int
    """When it was called, or the rank began to wait for an asynchronous one, in nanoseconds since the epoch."""
    returned_ns: int
    """When it returned, with or without an exception; 0 while it runs, and while the rank waits for an asynchronous one."""
    tag: int
    """The tag that was given, or 0."""
    number: int
    """Its number among the sends and receives of the rank in this group, from 1."""
    peer: int
    """The global rank of the peer, or `NO_RANK` for any."""
    op: int
    """Text number: the function."""
    group: int
    """Text number: the process group."""
    place: int
    """Text number: the user's lines that led to the call."""


class NewGroup(NamedTuple):
    """A call of `new_group`."""

    began_ns: int
    """When it was called, in nanoseconds since the epoch."""
    returned_ns: int
    """When it returned; 0 while it runs, and where it raised."""
    members: int
    """Text number: the ranks that were asked for."""
    place: int
    """Text number: the user's lines that led to the call."""


class Batch(NamedTuple):
    """A batch that a DataLoader handed out."""

    asked_ns: int
    """When it was asked for, in nanoseconds since the epoch."""
    drawn_ns: int
    """When it was handed out, in nanoseconds since the epoch."""
    seq: int
    """The number of collectives that the default group had made by then, or `NO_SEQ`."""
    iteration: int
    """The number of batches drawn from its data set so far, this one included."""
    data_set: int
    """The number of its data set among those of this process, from 1."""
    in_pass: int
    """The number of batches drawn in this pass over the data, this one included, or `NO_COUNT`."""
    of: int
    """How many batches its data loader says that a pass has, or `NO_COUNT`."""


class Forward(NamedTuple):
    """A training forward of a wrapped model."""

    began_ns: int
    """When it was called, in nanoseconds since the epoch."""
    seq: int
    """The number of collectives that the default group had made by then, or `NO_SEQ`."""
    number: int
    """The number of training forwards so far, this one included."""
    turn: int
    """The value of the variable that counts the turns of the loop around the call, or `NO_COUNT`."""
    place: int
    """Text number: the user's lines that led to the call."""
    steps: int = 0
    """The number of optimizer steps so far."""
    reduces: int = NO_COUNT
    """1 where the backward of this forward reduces gradients, 0 where it does not, as under `no_sync`; else `NO_COUNT`."""


COLLECTIVE, POINT_TO_POINT, NEW_GROUP, BATCH, FORWARD = 1, 2, 3, 4, 5
"""The kinds of records."""
COLLECTIVE_LAYOUT = Struct("<QQqqqiIIIII")
POINT_TO_POINT_LAYOUT = Struct("<QQqqqqiIII")
NEW_GROUP_LAYOUT = Struct("<QQqqII")
BATCH_LAYOUT = Struct("<QQqqqqiii")
FORWARD_LAYOUT = Struct("<QQqqqqIIi")

Record: TypeAlias = Collective | PointToPoint | NewGroup | Batch | Forward

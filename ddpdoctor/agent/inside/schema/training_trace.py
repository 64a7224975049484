"""The format of `PID.sync.jsonl`, what a rank writes down while it trains: a JSON line `[kind, fields]` for each record.

`kind` is the name of the fields' type. The first record is `Joined`. A fingerprint is 16 hexadecimal digits. Weights at one
moment are written once, as a `Table`; other records refer to them by its key. Names of tensors and what else seldom changes
are None where they are those of the record of the same kind before it, in the same segment.

The trace of a long run is cut into segments: `PID.sync.jsonl`, `PID.1.sync.jsonl`, and so on. Each begins with the records of
the segments before it that `carried_as` names, and refers to no table of an earlier one. Zero bytes may follow the last record.
"""

from typing import NamedTuple, TypeAlias

from .data_records import Epoch, Evaluation
from .final_records import End, LastState, LastWeights
from .hardware_records import Device, Integrity, Probe, Recomputed
from .model_records import BufferBroadcasts, ModelListing, Table, Wrapped, WrappedTwice
from .step_records import Overflow, Step, UnwaitedWork
from .unwrapped_records import UnwrappedModels, UnwrappedUse, UnwrappedWrite

VERSION = 4
SAMPLED = 8  # elements a tensor whose values are written down
SUFFIX = "sync.jsonl"


def segment_name(number: int) -> str:
    """What the name of a rank's segment ends with, after its process number and a dot."""
    return f"{number}.{SUFFIX}" if number else SUFFIX


def carried_as(record: "TraceRecord") -> tuple[object, ...] | None:
    """In the place of which earlier record later segments repeat `record`; None where they do not.

    They repeat what is written once, the last two passes over a data loader, the last evaluation, and one collective of a kind
    that nobody waited for. Audited steps are what they leave out.
    """
    match record:
        case Joined() | ModelListing() | Wrapped() | BufferBroadcasts() | WrappedTwice() | Device():
            return (object(),)  # each of them
        case Epoch():
            return Epoch, record.loader % 2, record.number % 2  # a program may make a loader for each pass
        case Evaluation():
            return (Evaluation,)
        case UnwaitedWork():
            return UnwaitedWork, record.op, record.used_by
        case UnwrappedWrite():
            return UnwrappedWrite, record.name
    return None


class Joined(NamedTuple):
    """Who writes the trace, and how. Its first two fields stay where they are in every version."""

    version: int
    """`VERSION` of the writer."""
    rank: int | None
    """The writer's rank in the job."""
    host: str
    """The writer's host."""
    method: str
    """How fingerprints are made; ranks with different methods cannot be compared."""
    every: int
    """Every how many steps the writer looks; 0 as often as the budget allows."""
    replay: bool = False
    """Whether it looks closely at some steps of a run before this one."""


TraceRecord: TypeAlias = (
    Joined
    | ModelListing
    | Wrapped
    | BufferBroadcasts
    | WrappedTwice
    | Table
    | Step
    | Integrity
    | Recomputed
    | Device
    | Probe
    | Overflow
    | UnwaitedWork
    | Epoch
    | Evaluation
    | LastWeights
    | LastState
    | UnwrappedModels
    | UnwrappedUse
    | UnwrappedWrite
    | End
)

"""What PyTorch's flight recorder knew on one rank, in columns: thousands of ranks fit in memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from ddpdoctor.evidence.frames import Frame


class State(IntEnum):
    """How far a recorded call got."""

    SCHEDULED = 0
    STARTED = 1
    DONE = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A process group as one rank's recorder knows it.

    `ranks` are the global ranks of its members, None where the recorder does not say (gloo). The sequence numbers are
    those of the last call of each kind, point-to-point calls included; None where the recorder does not say.
    """

    backend: str
    name: str
    description: str
    ranks: tuple[int, ...] | None = None
    last_enqueued: int | None = None
    last_completed: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """What was called, as far as the recorder sees it: neither the reduce operation nor the root is in there.

    `op` is the recorder's name without the backend, such as `all_reduce`. For point-to-point calls `source` and
    `target` are ranks within the group. Sizes are one tuple a tensor.
    """

    group: int
    op: str
    point_to_point: bool = False
    source: int | None = None
    target: int | None = None
    input_sizes: tuple[tuple[int, ...], ...] = ()
    input_dtypes: tuple[str, ...] = ()
    output_sizes: tuple[tuple[int, ...], ...] = ()
    output_dtypes: tuple[str, ...] = ()
    timeout_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightRecord:
    """The flight recorder's ring buffer of one rank, oldest entry first.

    Entry `i` is `calls[call[i]]`, made as number `seq[i]` of its group (of its point-to-point calls, for those) at
    `created_ns[i]` since the epoch, from the stack `stacks[stack[i]]`: positions in `frames`, innermost first, empty
    where none was recorded. `lost` entries were made before the oldest one that the ring still holds. `taken_at` is when
    the dump was made, in seconds since the epoch, None where that is not known.
    """

    version: str
    taken_at: float | None = None
    groups: tuple[Group, ...]
    calls: tuple[Call, ...]
    frames: tuple[Frame, ...] = ()
    stacks: tuple[tuple[int, ...], ...] = ((),)
    lost: int = 0
    call: tuple[int, ...] = ()
    seq: tuple[int, ...] = ()
    stack: tuple[int, ...] = ()
    state: tuple[State, ...] = ()
    created_ns: tuple[int, ...] = ()

    def __len__(self) -> int:
        return len(self.seq)

    def stack_of(self, entry: int) -> tuple[Frame, ...]:
        """The Python stack of entry number `entry`, innermost first."""
        return tuple(self.frames[position] for position in self.stacks[self.stack[entry]])


KINDS = (FlightRecord,)

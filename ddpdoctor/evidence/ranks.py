"""How ranks ended and how far they came: from watching them, or from what the logs say."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class RankError:
    """An exception that ended a rank, or that it printed: type without its module, whole message, stack.

    `stack` is innermost first. `cause` is the exception that it was raised from, or that a DataLoader worker or a
    spawned process passed on.
    """

    type: str
    message: str
    stack: tuple[Frame, ...] = ()
    cause: RankError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadError:
    """An exception that ended a thread of a rank; the rank itself went on. `thread` is its name."""

    thread: str
    error: RankError


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadErrors:
    """The threads of one rank that an exception ended, the first one first."""

    each: tuple[ThreadError, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExit:
    """How one rank ended, as far as it is known.

    `exit_code` is the process's own code, or -N for signal N; None where it still runs or nobody saw its end.
    `ended_by_launcher` is True where its launcher or ddpdoctor ended it because of somebody else's failure.
    `ended_at` is in seconds since the epoch; `order` is the place among all ends that one observer saw (0 first).
    `tail` are the last lines of what it printed, `native_stack` where Python was when native code crashed (innermost
    first), `debug` is TORCH_DISTRIBUTED_DEBUG as the rank itself had it. The out-of-memory facts are those of its own cgroup
    and kernel log.
    """

    exit_code: int | None
    error: RankError | None = None
    ended_by_launcher: bool = False
    ended_at: float | None = None
    order: int | None = None
    tail: tuple[str, ...] = ()
    oom_kills: int | None = None
    memory_limit_bytes: int | None = None
    memory_peak_bytes: int | None = None
    kernel_said: str | None = None
    pid: int | None = None
    native_stack: tuple[Frame, ...] = ()
    debug: str | None = None

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
    """How far one rank came: forwards of its wrapped models, steps of its optimizers.

    `last_at` is when the last of them ended, in seconds since the epoch. A count is None where nothing could be hooked.
    """

    forwards: int | None = None
    steps: int | None = None
    last_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCall:
    """One call of torch.distributed as the user's code made it: what the flight recorder cannot see.

    `op` is the function, such as `all_reduce`; `group` the group's name as the recorder has it; `seq` the number that
    the recorder gave the call in that group. `root` (of a broadcast, reduce, gather, scatter) and `peer` (of a send or
    recv, None for any) are global ranks, `tag` is that of a send or recv. `place` is the user's own line. `returned` is
    False while the call waits.
    """

    op: str
    group: str
    seq: int | None
    reduce_op: str | None = None
    root: int | None = None
    peer: int | None = None
    tag: int = 0
    place: Frame | None = None
    returned: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMark:
    """Where one rank's iterations fall among its collectives: when `iteration` began, `seq` calls had been made.

    `iteration` counts the batches that this rank had drawn, or the forwards of its wrapped model; `seq` the calls of
    the group that its gradients are reduced in. `in_pass` is the number of its batch in this pass over the data, from 1.
    """

    iteration: int
    seq: int
    in_pass: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """The `number`th training forward of this rank's wrapped models, and the user's own line that called it.

    `turn` is the value of the variable that counts the turns of the loop around that line, where it has one.
    """

    number: int
    place: Frame
    turn: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewGroup:
    """One call of `new_group`: the members asked for, whether it has returned, and the user's own line."""

    ranks: tuple[int, ...]
    returned: bool
    name: str | None = None
    place: Frame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handled:
    """An error that the rank was handling, in an `except`, a `finally` or an `__exit__`, as it made call `seq` of `group`."""

    group: str
    seq: int
    error: RankError


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveCalls:
    """What the agent recorded on one rank: its latest collectives, iterations and forwards, oldest first, and `new_group`s.

    `handled` are the first calls that it made while it handled an error, one for each line that raised one.
    """

    calls: tuple[CollectiveCall, ...] = ()
    steps: tuple[StepMark, ...] = ()
    forwards: tuple[Forward, ...] = ()
    new_groups: tuple[NewGroup, ...] = ()
    handled: tuple[Handled, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSize:
    """How many ranks the whole job has, those included that nobody could look at."""

    ranks: int


KINDS = (RankExit, ThreadErrors, StepCount, CollectiveCalls, JobSize)

"""What the threads of a rank were executing when somebody looked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Thread:
    """One thread."""

    name: str
    """Its Python name."""
    frames: tuple[Frame, ...]
    """Its Python frames, innermost first."""
    os_id: int | None = None
    """The kernel's number of the thread."""
    main: bool = False
    """Whether it is the main thread, or the one that trains in its place, as the rank's agent tells."""
    active: bool = False
    """Whether it is on a CPU or ready for one."""
    holds_gil: bool = False
    """Whether it held the GIL."""
    native: tuple[str, ...] = ()
    """The names of the C and C++ functions above its innermost Python frame, innermost first, where they were
    requested."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedLoop:
    """The turn that a rank is in of a loop around one of its lines, where a name counts it."""

    frame: int
    """The place of that line among the lines of the user's own on the main thread's stack; 0 is the outermost."""
    loop: int
    """The line of the loop's head."""
    turn: float
    """What the name has that counts the turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """Every thread of one rank at one moment."""

    source: str
    """`py-spy` or `worker server`."""
    threads: tuple[Thread, ...]
    """Every thread that could be read."""
    moved: bool | None = None
    """Whether the main thread was elsewhere in a second snapshot; None where there was none."""
    gil_never_free: bool = False
    """Whether a thread held the GIL in every snapshot, and nothing else in the process got hold of it in between."""
    seen: tuple[tuple[Frame, ...], ...] = ()
    """The main thread's frames of the user's own code at each look, innermost first; equal looks stand once."""
    counts: tuple[str, ...] = ()
    """The numbers among the variables of the user's own functions on the main thread's stack that changed between
    two looks, by name."""
    others_work: bool = False
    """Whether another thread than the main one, of the user's own, was at other lines, used a CPU, or moved data between
    two looks."""
    turns: tuple[CountedLoop, ...] = ()
    """The turns of the loops around those of the user's own lines, where a name counts them and could be read."""

    @property
    def frames(self) -> Iterator[Frame]:
        """Every frame of every thread, and those of the main thread at earlier looks."""
        yield from (frame for thread in self.threads for frame in thread.frames)
        yield from (frame for way in self.seen for frame in way)

    @property
    def main(self) -> Thread | None:
        """The thread in which the training loop runs, by default the main one; None where it could not be told."""
        return next((thread for thread in self.threads if thread.main), None)

    @property
    def gil_holder(self) -> Thread | None:
        """The thread that held the GIL when we looked."""
        return next((thread for thread in self.threads if thread.holds_gil), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopTurn:
    """The turn of a loop that a rank is in, or was in last."""

    loop: int
    """The line of the loop's head."""
    turn: int
    """What the name has that counts its turns."""
    inner: int | None = None
    """The same of the innermost loop in it in which some ranks stand: its last turn on ranks that have left it. None where
    there is no such loop, or no name counts its turns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenRoot:
    """The root that a rank gave to the collective in which it waits."""

    op: str
    """The function of torch.distributed: `broadcast`."""
    root: int
    """The root, as the rank gave it."""
    place: Frame
    """The line of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenSize:
    """The size of the tensor that a rank gave to the collective in which it waits."""

    op: str
    """The function of torch.distributed: `all_reduce`."""
    size: tuple[int, ...]
    """By dimension."""
    place: Frame
    """The line of the call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenPeer:
    """The rank to which a rank sends, or from which it receives, in the call of torch that it is in."""

    op: str
    """`send` or `recv`."""
    peer: int
    """The other rank, as the rank gave it."""
    place: Frame
    """The line of the call."""


KINDS = {
    Stacks: "stacks",
    LoopTurn: "turn of the loop",
    GivenRoot: "root of a call",
    GivenSize: "size of a tensor",
    GivenPeer: "partner of a send or receive",
}

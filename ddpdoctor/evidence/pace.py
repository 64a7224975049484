"""How a rank goes about its iterations: when they began, and where it was seen meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The latest iterations of one rank, oldest first; times in nanoseconds since the epoch, by the clock of its host.

    Batch `i` was asked for at `asked_ns[i]` and there at `drawn_ns[i]`; both are empty where no DataLoader was used.
    `forward_ns` are the beginnings of training forwards of the wrapped model, `forward` the user's line of the last one.
    """

    asked_ns: tuple[int, ...] = ()
    drawn_ns: tuple[int, ...] = ()
    forward_ns: tuple[int, ...] = ()
    forward: Frame | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Where one rank was at looks at odd moments while the job ran: the user's lines, the most frequent first.

    It was at `places[i]` at `times[i]` of the looks, `of` in all; looks at which it waited for its peers are in `of` only.
    """

    of: int
    places: tuple[Frame, ...] = ()
    times: tuple[int, ...] = ()


KINDS = (Pace, Looks)

"""How a rank goes about its iterations: when they began, and where it was seen meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from ddpdoctor.evidence.frames import Frame


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """The latest iterations of one rank, oldest first.

    Times are nanoseconds since the epoch, by the clock of its host.
    """

    asked_ns: tuple[int, ...] = ()
    """When each batch was requested from the DataLoader; empty where none was used."""
    drawn_ns: tuple[int, ...] = ()
    """When each batch was there; as long as `asked_ns`."""
    forward_ns: tuple[int, ...] = ()
    """When each training forward of the wrapped model began."""
    forward_steps: tuple[int, ...] = ()
    """The number of optimizer steps before each of these forwards; empty where it is not known."""
    forward_lines: tuple[int, ...] = ()
    """The user's line of each of these forwards, by a number that is the same for the same line; empty likewise."""
    forward: Frame | None = None
    """The user's line of the last forward."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessorTime:
    """How long a rank had a processor while the job made steps, and how long it was ready to run and had none."""

    seconds: float
    """How long it was observed."""
    ran: float
    """The seconds in which its main thread ran."""
    ready: float
    """The seconds in which its main thread was ready to run and waited for a processor."""
    workers_ready: float = 0.0
    """The seconds in which the process that waited most among those that it started (its loader's workers) did so."""
    used: float = 0.0
    """The seconds of processor time that all threads of the rank and the processes that it started used together."""
    processors: int = 0
    """How many processors it may use; 0 where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Looks:
    """Where one rank was at samples of its stack at random moments while the job ran."""

    of: int
    """The number of samples; those at which it waited for its peers count here only."""
    places: tuple[Frame, ...] = ()
    """The user's lines that were seen, the most frequent first."""
    times: tuple[int, ...] = ()
    """At how many samples each of them was seen."""


KINDS = {
    Pace: "step times",
    ProcessorTime: "processor time",
    Looks: "stack samples",
}

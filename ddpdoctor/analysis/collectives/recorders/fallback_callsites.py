"""Lines of calls that their recorder does not hold: of a dump in JSON, and above the thread that made a call.

They come from the agent's notes, and from where the rank waits now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ddpdoctor.analysis.hangs.stack_patterns import Activity, activity_in_stack
from ddpdoctor.evidence import PerRank
from ddpdoctor.evidence.frames import Frame, program_frames
from ddpdoctor.evidence.ranks import CollectiveCalls
from ddpdoctor.evidence.stacks import Stacks


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherLines:
    """Frames above torch that no recorder holds, outermost first."""

    now: Mapping[int, tuple[Frame, ...]] = field(default_factory=dict)
    """By rank, the stack of one that waits in a collective."""
    for_a_thread: Mapping[int, tuple[Frame, ...]] = field(default_factory=dict)
    """By rank, the stack of a main thread that waits for the end, or for the result, of another thread."""
    noted: Mapping[tuple[int, str, int], Frame] = field(default_factory=dict)
    """The line of a call by rank, group and sequence number, as the agent noted it."""

    def of(self, rank: int, group: str, seq: int, *, waits: bool) -> tuple[Frame, ...]:
        """Where the rank made this call, which it still `waits` in or not; empty where nobody knows."""
        if waits and rank in self.now:
            return self.now[rank]
        noted = self.noted.get((rank, group, seq))
        return (noted,) if noted is not None else ()


def other_lines(calls: PerRank[CollectiveCalls] | None, stacks: PerRank[Stacks] | None) -> OtherLines:
    """What is known of lines beside the recorders."""
    return OtherLines(
        now={entry.rank: mine for entry in stacks or () if (mine := _waiting(entry.value, Activity.COLLECTIVE))},
        for_a_thread={entry.rank: mine for entry in stacks or () if (mine := _waiting(entry.value, Activity.HANDOVER))},
        noted={
            (entry.rank, call.group, call.seq): call.place
            for entry in calls or ()
            for call in entry.value.calls
            if call.seq is not None and call.place is not None and call.began_ns is None
        },
    )


def _waiting(stacks: Stacks, activity: Activity) -> tuple[Frame, ...]:
    """The program's frames of the main thread where this is what it waits in; none otherwise."""
    main = stacks.main
    shown = activity_in_stack(main.frames) if main is not None else None
    if main is None or shown is None or shown[0] is not activity:
        return ()
    return program_frames(main.frames)

"""Ranks past a loop that the others were in, when gloo ended one of them because two calls of different sizes had met.

Such a rank takes its flight recorder with it: faulthandler has its stack, and the recorders of the others show where these were.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ddpdoctor.analysis.collectives.places.callsites import compare
from ddpdoctor.analysis.collectives.places.relations import Relation
from ddpdoctor.analysis.collectives.recorders.timeline import Timeline
from ddpdoctor.analysis.crashes.failure import Failure
from ddpdoctor.analysis.crashes.failures import Failures
from ddpdoctor.analysis.majority import vote
from ddpdoctor.evidence.frames import Frame, program_frames
from ddpdoctor.evidence.source import Loop, SourceCode
from ddpdoctor.model import SkipCheck

_CALLS_AND_WAITS = re.compile(r"/torch/distributed/(?:distributed_c10d|utils|tensor/_redistribute)\.py$")
"""What makes a collective and waits for it in one call."""
_CALLS_AHEAD = re.compile(r"/torch/distributed/(?:algorithms|fsdp|pipelining)/")
"""What makes collectives whose end a later call waits for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedPastALoop:
    """Ranks that had left a loop in which the others still were."""

    ranks: tuple[int, ...]
    """The ranks past the loop, sorted."""
    others: tuple[int, ...]
    """The ranks in it, sorted."""
    loop: Loop
    """The loop in the source of the user's program."""
    frame: Frame
    """The line of the others in the function that has the loop."""
    places: Mapping[int, Frame]
    """The line of the program at which each rank was."""


def derive(failures: Failures, timeline: Timeline, code: SourceCode) -> AbortedPastALoop:
    """The two sides, where all ranks are known to have been at one of two places, and no loop leads from one to the other.

    Raises:
        SkipCheck: gloo ended no rank so, or what is known of the ranks does not tell.
    """
    paths, sides = two_sides(failures, timeline)
    for ranks, others in (sides, sides[::-1]):
        path, there = paths[ranks[0]], paths[others[0]]
        found = compare(path, there, code, (ranks, others))
        if found.relation is Relation.PAST and found.loop is not None and found.frame is not None and not found.again:
            within = next(frame for frame in there if frame.function == found.frame.function)
            return AbortedPastALoop(
                ranks=ranks,
                others=others,
                loop=found.loop,
                frame=within,
                places={rank: path[-1] for rank, path in paths.items()},
            )
    raise SkipCheck("the source does not show that the ranks had left a loop")


def two_sides(
    failures: Failures, timeline: Timeline
) -> tuple[Mapping[int, tuple[Frame, ...]], Sequence[tuple[int, ...]]]:
    """The lines that led to the call of each rank, outermost first, and the ranks by these.

    Raises:
        SkipCheck: not all ranks are known to have been at one of two places.
    """
    paths = {**_paths_of_the_others(timeline), **_paths_of_aborted(failures)}
    sides = vote(paths).sides
    if len(sides) != 2 or len(paths) < len(timeline.ranks) or not all(paths.values()):
        raise SkipCheck("the ranks were not in two calls when gloo ended one of them")
    return paths, sides


def in_its_call(failure: Failure) -> bool:
    """Whether the line of a rank that gloo aborted is that of its call, and not one that waits for it later (`work.wait()`)."""
    files = [frame.file for frame in failure.exit.native_stack]
    return not files or (any(map(_CALLS_AND_WAITS.search, files)) and not any(map(_CALLS_AHEAD.search, files)))


def _paths_of_aborted(failures: Failures) -> dict[int, tuple[Frame, ...]]:
    found = failures.mismatched
    if not found or not all(map(in_its_call, found)):
        raise SkipCheck("gloo ended no rank in a call whose line is known")
    return {one.rank: program_frames(one.exit.native_stack) for one in found if one.rank is not None}


def _paths_of_the_others(timeline: Timeline) -> dict[int, tuple[Frame, ...]]:
    return {
        rank: issued.program
        for group in timeline.groups
        if not group.name
        for rank, issued in group.last.items()
        if issued.seq == group.top
    }

"""Ranks that wait in different collectives of the default group: their sequences of calls differ, whatever led to it.

Out of such a call no rank comes before all others are in it. Two ranks that wait in two of them for good have therefore not
called the same before, or do not call the same now, in whatever turn of a loop they are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from ddpdoctor.evidence.frames import Frame, is_programs
from ddpdoctor.evidence.source import SourceCode
from ddpdoctor.evidence.stacks import Stacks

_OF_ALL = re.compile(r"barrier|all_reduce|all_gather|reduce_scatter|all_to_all")
"""Forms of one of these may meet: `all_gather_object` calls `all_gather`."""
_CALLS = re.compile(r"/torch/distributed/(?:distributed_c10d|c10d_logger)\.py$")


def calls_of_all(
    operations: Mapping[int, str],
    paths: Mapping[int, tuple[Frame, ...]],
    stacks: Mapping[int, Stacks],
    code: SourceCode | None,
) -> dict[int, str] | None:
    """The kind of call that each rank waits in; None where one of them may be of another group, or lets ranks out alone."""
    kinds = {rank: _OF_ALL.search(operation) for rank, operation in operations.items()}
    if not all(_of_the_default_group(paths.get(rank, ()), stacks[rank], code) for rank in operations):
        return None
    known = {rank: kind[0] for rank, kind in kinds.items() if kind is not None}
    return known if len(known) == len(operations) else None


def _of_the_default_group(path: tuple[Frame, ...], stacks: Stacks, code: SourceCode | None) -> bool:
    """Whether the program itself makes this call, and no line of its call path may name a group."""
    frames = stacks.main.frames if stacks.main is not None else ()
    inner = next((at for at, frame in enumerate(frames) if is_programs(frame.file)), 0)
    if code is None or not inner or not all(_CALLS.search(frame.file) for frame in frames[:inner]):
        return False
    places = [code.at(frame.file, frame.line) for frame in path]
    return bool(places) and all(place is not None and not place.grouped for place in places)


def shared_depth(paths: Mapping[int, tuple[Frame, ...]]) -> int:
    """The number of frames, outermost first, that all these call paths share."""
    depth = 0
    for frames in zip(*paths.values(), strict=False):
        if len({*frames}) > 1:
            break
        depth += 1
    return depth

"""Calls in one loop: what its earlier turns and its source tell of a call under a condition that stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.model import Finding
from ddpdoctor.source.context import source_of
from tests.flight_records import TORCH, Did, flights, record

Made = tuple[str, tuple[tuple[int, str], ...]]
"""A call and its lines, outermost first."""

SMALL_BATCHES = """\
def main(loader, world_size):
    for batch in loader:
        dist.barrier()
        if len(batch) * world_size < 64:
            dist.all_reduce(batch)
"""


def test_a_test_of_a_value_and_the_world_size_does_not_let_every_turn_make_the_call(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SMALL_BATCHES)
    start, small = ("barrier", ((3, "main"),)), ("all_reduce", ((5, "main"),))
    usual = [start, small] * 3 + [start]

    found = told(path, usual, [*usual, small], usual, exits=(0, 2))

    assert (found.code, found.ranks) == ("DDP305", (1,))


def told(path: Path, *ranks: Sequence[Made], exits: Sequence[int] = ()) -> Finding:
    """The first finding, of ranks that made these calls, the last of which waits where the rank did not end."""
    records = [recorded(path, made, waits=rank not in exits) for rank, made in enumerate(ranks)]
    job = flights(*records, facts={rank: [RankExit(exit_code=0)] for rank in exits})
    source = source_of(sorted({frame for one in records for frame in one.frames}, key=repr))
    assert source is not None
    return diagnose(replace(job, job=(*job.job, source))).findings[0]


def recorded(path: Path, made: Sequence[Made], *, waits: bool) -> FlightRecord:
    frames: list[Frame] = []
    stacks: list[tuple[int, ...]] = []
    for _, lines in made:
        stack = (TORCH, *(Frame(file=str(path), line=line, function=name) for line, name in reversed(lines)))
        frames += [frame for frame in stack if frame not in frames]
        stacks.append(tuple(frames.index(frame) for frame in stack))
    calls = [Did(op, done=not waits or number < len(made)) for number, (op, _) in enumerate(made, 1)]
    distinct = [*dict.fromkeys(stacks)]
    return replace(
        record(calls, world=3),
        frames=tuple(frames),
        stacks=tuple(distinct),
        stack=tuple(distinct.index(stack) for stack in stacks),
    )

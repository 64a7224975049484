"""Calls in one loop: what its earlier turns and its source tell of a call under a condition that stands in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.analysis.collectives.places.callsites import compare
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import FlightRecord
from ddpdoctor.model import Finding
from ddpdoctor.source.stack_lines.context import source_of
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


HELPED = """\
{decorator}
def average(x):
    {line}

def turn(batch):
    average(batch)
    {left}
    dist.all_gather(batch, batch)
    dist.reduce(batch, 0)

def main(loader):
    for batch in loader:
        turn(batch)
"""
AVERAGE: Made = ("all_reduce", ((13, "main"), (6, "turn"), (3, "average")))
GATHER: Made = ("all_gather", ((13, "main"), (8, "turn")))
BEHIND: Made = ("reduce", ((13, "main"), (9, "turn")))
DIRECT = """\
def average(x):
    if enabled:
        dist.all_reduce(x)

def main(loader):
    for batch in loader:
        average(batch)
        {left}
        dist.all_gather(batch, batch)
"""


def test_a_rank_that_made_the_call_in_this_turn_is_in_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(HELPED.format(decorator="", line="if enabled: dist.all_reduce(x)", left="if bad(batch): return"))
    turns = [AVERAGE, GATHER] * 4 + [AVERAGE]

    found = told(path, [*turns, GATHER], [*turns, AVERAGE], [*turns, GATHER])

    assert (found.code, found.ranks) == ("DDP301", (1,))
    assert not any("enabled" in where.note for where in found.where)


@pytest.mark.parametrize(
    ("decorator", "line", "turns"),
    [
        ("@functools.lru_cache", "dist.all_reduce(x)", [AVERAGE, GATHER, GATHER, GATHER]),
        ("@functools.lru_cache", "dist.all_reduce(x)", [AVERAGE, GATHER] * 3),
        ("", "if norm(x) > factor * usual: dist.all_reduce(x)", [GATHER, AVERAGE, GATHER, GATHER]),
        ("", "if norm(x) > factor * usual: dist.all_reduce(x)", [GATHER] * 3),
        ("@functools.lru_cache", "dist.all_reduce(x)", [AVERAGE, BEHIND]),  # the first turn makes no all_gather
    ],
)
def test_a_rank_that_did_not_is_under_the_condition(
    tmp_path: Path, decorator: str, line: str, turns: list[Made]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(HELPED.format(decorator=decorator, line=line, left="pass"))

    found = told(path, [*turns, GATHER], [*turns, AVERAGE], [*turns, GATHER])

    assert (found.code, found.ranks) == ("DDP305", (1,))
    assert "inside" in found.where[0].note


def test_a_continue_between_two_lines_of_a_loop_tells_more_than_a_condition_in_a_helper(tmp_path: Path) -> None:
    assert compared(tmp_path, "if bad(batch): continue").relation is Relation.WITHIN
    assert compared(tmp_path, "pass").relation is Relation.CONDITIONAL


EPOCH = """\
def train_epoch(data):
    for x in data:
        {left}
        average(x)

def main(data):
    for epoch in range(9):
        train_epoch(data)
        validate(data)
"""
TURN: Made = ("all_reduce", ((8, "main"), (4, "train_epoch")))
VALIDATE: Made = ("all_gather", ((9, "main"),))


def test_a_rank_behind_a_function_has_left_the_loop_in_it_that_a_continue_cuts_short(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(EPOCH.format(left="if loss(x) > 9: continue"))
    turns = [TURN] * 4

    found = told(path, [*turns, TURN], [*turns, VALIDATE], [*turns, TURN])

    assert (found.code, found.ranks) == ("DDP306", (1,))
    assert (found.where[0].line, found.where[0].note) == (3, "`continue` inside `if loss(x) > 9`")
    assert "pass over" in found.remedy

    path.write_text(EPOCH.format(left="if step < start_step: continue"))  # on all ranks alike
    found = told(path, [*turns, TURN], [*turns, VALIDATE], [*turns, TURN])
    assert (found.code, found.where[0].line) == ("DDP306", 9)

    path.write_text(EPOCH.format(left="pass"))  # every rank makes all turns: nothing shows why it is there
    assert told(path, [*turns, TURN], [*turns, VALIDATE], [*turns, TURN]).code == "DDP301"


def test_without_records_the_ranks_may_be_in_different_turns(tmp_path: Path) -> None:
    assert compared(tmp_path, "pass", further=None).relation is Relation.WITHIN


def compared(folder: Path, left: str, further: tuple[bool, bool] | None = (False, False)) -> Comparison:
    """A rank in the helper that the loop calls first, and one at the call behind it."""
    path = folder / "train.py"
    path.write_text(DIRECT.format(left=left))
    lines = [(7, "main"), (3, "average"), (9, "main")]
    first, helper, last = (Frame(file=str(path), line=line, function=name) for line, name in lines)
    return compare((first, helper), (last,), source_of([first, helper, last]), further=further)


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

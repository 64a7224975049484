"""Two ranks are in one turn where names count all loops around both, and have one value on both."""

from __future__ import annotations

from pathlib import Path

from ddpdoctor.analysis.collectives.places.same_iteration import in_one_turn
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.stacks import CountedLoop, Stacks, Thread
from ddpdoctor.source.stack_lines.context import source_of

TEXT = """def main():
    for epoch in range(3):
        for step, batch in enumerate(loader):
            train(batch)
            report(step)
        for batch in others:
            train(batch)
    wait()
"""


def turned(folder: Path, one: int, other: int, mine: dict[int, int], theirs: dict[int, int]) -> bool:
    """Of ranks at these lines of `main` that are in these turns, by the line of the loop."""
    script = folder / "train.py"
    script.write_text(TEXT)
    frames = [Frame(file=str(script), line=line, function="main") for line in (one, other)]
    stacks = [
        Stacks(
            source="py-spy",
            threads=(Thread(name="MainThread", frames=(frame,), main=True),),
            turns=tuple(CountedLoop(frame=0, loop=loop, turn=turn) for loop, turn in turns.items()),
        )
        for frame, turns in zip(frames, (mine, theirs), strict=True)
    ]
    return in_one_turn(stacks[0], stacks[1], source_of(frames))


def test_the_loops_around_both_lines_count(tmp_path: Path) -> None:
    assert turned(tmp_path, 4, 5, {2: 1, 3: 7}, {2: 1, 3: 7})
    assert not turned(tmp_path, 4, 5, {2: 1, 3: 7}, {2: 1, 3: 8})
    assert not turned(tmp_path, 4, 5, {2: 1, 3: 7}, {2: 0, 3: 7})
    assert not turned(tmp_path, 4, 5, {2: 1, 3: 7}, {2: 1})
    assert turned(tmp_path, 4, 8, {2: 1, 3: 7}, {})
    assert turned(tmp_path, 4, 7, {2: 1, 3: 7}, {2: 1})


def test_a_loop_that_nothing_counts_tells_nothing(tmp_path: Path) -> None:
    assert not turned(tmp_path, 7, 7, {2: 1}, {2: 1})


def test_without_source_nothing_is_known() -> None:
    assert not in_one_turn(Stacks(source="py-spy", threads=()), Stacks(source="py-spy", threads=()), None)


def test_the_command_by_which_multiprocessing_starts_a_rank_has_no_loop(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def run():\n    barrier()\n")
    inner = Frame(file=str(script), line=2, function="run")
    command = Frame(file="<string>", line=1, function="<module>")
    spawn = Frame(file="/usr/lib/python3.11/multiprocessing/spawn.py", line=122, function="spawn_main")

    def started(*frames: Frame) -> bool:
        stacks = Stacks(source="py-spy", threads=(Thread(name="MainThread", frames=frames, main=True),))
        return in_one_turn(stacks, stacks, source_of([inner]))

    assert started(inner, spawn, command)
    assert not started(inner, command)

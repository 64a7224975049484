"""What the source tells of two ranks that wait at different lines: a loop left, not come to, or a branch of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.analysis.collectives.places.callsites import compare
from ddpdoctor.analysis.collectives.places.relations import Comparison, Relation
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.messages.unshared_call_remedies import OF_A_SIGNAL, by_the_test
from ddpdoctor.source.stack_lines.context import source_of

JOB = """\
def main():
    resume()
    for epoch in range(3):
        shuffle()
        for batch in loader:
            try:
                step(batch)
            except BadBatch:
                barrier()
        save()
        {last}
    finish()

def save():
    if get_rank() == 0:
        barrier()
"""


@pytest.fixture
def seen(tmp_path: Path):
    """Two stacks in the job compared: `seen([(2, "main")], [(7, "main")])`."""
    path = tmp_path / "train.py"

    def see(one: list[tuple[int, str]], other: list[tuple[int, str]], last: str = "pass") -> Comparison:
        path.write_text(JOB.format(last=last))
        stacks = [
            tuple(Frame(file=str(path), line=line, function=name) for line, name in each) for each in (one, other)
        ]
        return compare(stacks[0], stacks[1], source_of([*stacks[0], *stacks[1]]))

    return see


def test_a_rank_above_a_loop_that_is_entered_once_has_not_left_it(seen) -> None:
    assert seen([(2, "main")], [(7, "main")]).relation is Relation.BEFORE
    assert seen([(7, "main")], [(2, "main")]).relation is Relation.AHEAD
    assert seen([(12, "main")], [(7, "main")]).relation is Relation.PAST


def test_a_rank_above_an_inner_loop_may_have_come_round_again(seen) -> None:
    assert seen([(4, "main")], [(7, "main")]).relation is Relation.PAST


def test_a_test_of_the_rank_tells_more_than_having_left_the_loop(seen) -> None:
    found = seen([(10, "main"), (16, "save")], [(7, "main")])

    assert found.relation is Relation.CONDITIONAL
    assert found.condition is not None
    assert found.condition.test == "get_rank() == 0"


@pytest.mark.parametrize("test", ["local_rank != -1", "args.rank >= 0", "rank is not None"])
def test_whether_there_are_ranks_at_all_is_no_test_of_the_rank(seen, test: str) -> None:
    assert seen([(11, "main")], [(7, "main")], last=f"if {test}: barrier()").relation is Relation.PAST
    assert seen([(11, "main")], [(7, "main")], last="if rank != 0: barrier()").relation is Relation.CONDITIONAL


def test_a_call_that_a_destructor_makes_is_the_one_that_others_leave_out(seen) -> None:
    freed, trains = [(10, "main"), (16, "__del__")], [(7, "main")]
    of_freed, of_trains = seen(freed, trains), seen(trains, freed)

    assert (of_freed.relation, of_trains.relation) == (Relation.CONDITIONAL, Relation.UNCONDITIONAL)
    assert of_freed.condition is not None
    assert condition_text(of_freed.condition, "train.py") == "inside `def __del__` (train.py:16)"
    assert seen(freed, freed).relation is Relation.SAME


def test_a_call_in_the_handler_of_a_signal_is_the_one_that_others_leave_out(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "class Guard:\n    def __init__(self):\n        signal.signal(signal.SIGUSR1, self.on_notice)\n\n"
        "    def on_notice(self, number, frame):\n        self.save()\n\n    def save(self):\n        barrier()\n\n"
        "def main():\n    for batch in loader:\n        step(batch)\n        log()\n"
    )
    noticed = [
        Frame(file=str(path), line=line, function=name) for line, name in [(14, "main"), (6, "on_notice"), (9, "save")]
    ]
    trains = [Frame(file=str(path), line=13, function="main")]

    found = compare(tuple(noticed), tuple(trains), source_of([*noticed, *trains]))

    assert found.relation is Relation.CONDITIONAL
    assert found.condition is not None
    assert condition_text(found.condition, "train.py") == "inside the signal handler `on_notice` (train.py:5)"
    assert by_the_test(found, ["barrier"]) == OF_A_SIGNAL


def test_a_handler_is_a_branch_of_its_own(seen) -> None:
    found = seen([(9, "main")], [(7, "main")])

    assert found.relation is Relation.CONDITIONAL
    assert found.condition is not None
    assert condition_text(found.condition, "train.py") == "inside `except BadBatch` (train.py:8)"


HELPED = """\
def main():
    for batch in loader:
        rescale(batch)
        step(batch)

{decorator}
def rescale(batch):
    {line}
"""


@pytest.mark.parametrize(
    ("decorator", "line", "told"),
    [
        ("", "if norm(batch) > 1: all_reduce(batch)", "norm(batch) > 1"),
        ("@functools.lru_cache", "all_reduce(batch)", "@functools.lru_cache"),
        ("@cache", "all_reduce(batch)", "@cache"),
    ],
)
def test_a_condition_in_the_function_that_makes_the_call_tells_why_a_rank_passed_it(
    tmp_path: Path, decorator: str, line: str, told: str
) -> None:
    past, inside = helped(tmp_path, decorator, line)

    found = compare(past, inside, source_of([*past, *inside]))
    assert found.relation is Relation.UNCONDITIONAL
    assert found.condition is not None
    assert found.condition.test == told
    assert compare(inside, past, source_of([*past, *inside])).relation is Relation.CONDITIONAL


@pytest.mark.parametrize(
    ("decorator", "line"),
    [("", "all_reduce(batch)"), ("", "if dist.is_initialized(): all_reduce(batch)"), ("@timed", "all_reduce(batch)")],
)
def test_what_all_ranks_of_a_job_answer_alike_tells_nothing(tmp_path: Path, decorator: str, line: str) -> None:
    past, inside = helped(tmp_path, decorator, line)

    assert compare(past, inside, source_of([*past, *inside])).relation is Relation.PAST


def helped(folder: Path, decorator: str, line: str) -> tuple[tuple[Frame, ...], tuple[Frame, ...]]:
    """A rank in `step`, and one in the helper that is called before it."""
    path = folder / "train.py"
    path.write_text(HELPED.format(decorator=decorator, line=line))
    at = [
        Frame(file=str(path), line=number, function=name) for number, name in ((4, "main"), (3, "main"), (8, "rescale"))
    ]
    return (at[0],), (at[1], at[2])

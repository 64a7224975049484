"""One all-reduce on some ranks only meets its peers' gradients: a call too many, and no mismatch of shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.analysis.collectives.callsites import Relation, compare, tells_ranks_apart
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition
from ddpdoctor.messages.collectives import condition_note
from ddpdoctor.source.context import source_of

JOB = """\
def log(step, meter):
    if get_rank() == 0:
        print(meter.reduce())

def fit(steps):
    for step in range(steps):
        train(step)
        if step % 25 == 0: log(step, meter)
        {unconditional}
"""


def stack(path: Path, *places: tuple[int, str]) -> tuple[Frame, ...]:
    return tuple(Frame(file=str(path), line=line, function=function) for line, function in places)


@pytest.mark.parametrize(
    ("line", "unconditional"), [(8, "pass"), (9, "log(step, meter)")], ids=["under a count", "in every step"]
)
def test_the_test_of_the_rank_is_found_in_the_function_that_holds_it(
    tmp_path: Path, line: int, unconditional: str
) -> None:
    path = tmp_path / "train.py"
    path.write_text(JOB.format(unconditional=unconditional))
    minority = stack(path, (line, "fit"), (3, "log"))
    majority = stack(path, (7, "fit"))

    found = compare(minority, majority, source_of([*minority, *majority]))

    assert found.relation is Relation.CONDITIONAL
    assert found.condition is not None
    assert (found.condition.test, found.condition.line) == ("get_rank() == 0", 2)


def test_a_name_that_the_file_gives_the_rank_to_tells_as_much(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(JOB.format(unconditional="pass").replace("get_rank() == 0", "me == owner") + "\nme = get_rank()\n")
    minority, majority = stack(path, (8, "fit"), (3, "log")), stack(path, (7, "fit"))

    found = compare(minority, majority, source_of([*minority, *majority]))

    assert condition_note(found) == "inside `if me == owner` (train.py:2)"


@pytest.mark.parametrize(
    ("test", "tells"),
    [
        ("trainer.is_global_zero", True), ("is_root()", True), ("accelerator.is_local_main_process", True),
        ("args.local_rank != -1", False), ("step % 10 == 0", False), ("primary_loss < best", False),
    ],
)  # fmt: skip
def test_words_for_the_first_rank_tell_ranks_apart(test: str, *, tells: bool) -> None:
    assert tells_ranks_apart(Condition(line=1, test=test, branch=0)) is tells


def test_two_calls_of_one_step_without_such_a_test_tell_nothing(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(JOB.format(unconditional="finish(step)"))
    one, other = stack(path, (9, "fit")), stack(path, (7, "fit"))

    assert compare(one, other, source_of([*one, *other])).relation is Relation.ELSEWHERE


BEST = """\
class Trainer:
    def save_if_best(self, loss):
        if loss < self.best:
            barrier()

    def fit(self, steps):
        for step in range(steps):
            train(step)
            if step % 20 == 19:
                self.save_if_best(loss)
"""


def test_the_condition_next_to_the_call_is_shown_and_of_the_ranks_that_are_under_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(BEST)
    passes_by, saves = stack(path, (8, "fit")), stack(path, (10, "fit"), (4, "save_if_best"))
    code = source_of([*passes_by, *saves])

    assert condition_note(compare(saves, passes_by, code)) == "inside `if loss < self.best` (train.py:3)"
    assert condition_note(compare(passes_by, saves, code)) == "the others are inside `if loss < self.best` (train.py:3)"

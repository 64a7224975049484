"""What the source says of the statements that leave a loop, and of values that depend on the rank."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ddpdoctor.analysis.collectives.places.rank_tests import ranks_under
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import CodePlace, Jump, RankValue
from ddpdoctor.messages.conditions import condition_text
from ddpdoctor.source.stack_lines.context import source_of

JOB = """\
import os
rank = int(os.environ["RANK"])
def main(epochs):
    trainer = Trainer(rank, disable=rank != 0)
    trainer.fit(epochs - (rank == 1), 3 if rank == 0 else 4)
    for batch in loader:
        if batch is None and rank == 1:
            continue
        for part in batch:
            if part: break
            if not part: return
        train(batch)
        if done(): break
"""


def place(path: Path, line: int) -> CodePlace:
    path.write_text(JOB)
    code = source_of([Frame(file=str(path), line=line, function="main")])
    assert code is not None
    return code.places[0]


def test_the_statements_that_leave_a_loop_have_the_test_above_them(tmp_path: Path) -> None:
    (loop,) = place(tmp_path / "train.py", 12).loops
    assert loop.jumps == (
        Jump(line=8, word="continue", test="batch is None and rank == 1", by_rank=True, tested=7),
        Jump(line=11, word="return", test="not part", tested=11),
        Jump(line=13, word="break", test="done()", tested=13),
    )
    assert loop.skips == (8,)


NESTED = """\
def main(rank, loader):
    for batch in loader:
        if rank == 0:
            log(batch)
            if done():
                break
        else:
            if batch is None:
                continue
        if len(batch) < 2:
            if skips:
                continue
        elif rank == 1:
            continue
        train(batch)
"""


def test_a_jump_stands_under_the_test_of_the_rank_around_its_own(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(NESTED)
    code = source_of([Frame(file=str(path), line=15, function="main"), Frame(file=str(path), line=14, function="main")])
    assert code is not None
    (leaves, others, skips, second) = code.places[0].loops[0].jumps
    assert leaves == Jump(line=6, word="break", test="rank == 0 and done()", tested=3)
    assert others == Jump(line=9, word="continue", test="rank == 0", branch=1, tested=3)
    assert skips == Jump(line=12, word="continue", test="skips", tested=11)
    assert second == Jump(line=14, word="continue", test="rank == 1", tested=13)
    assert [ranks_under(jump.condition, [0, 1, 2]) for jump in (leaves, others, second)] == [(0,), (1, 2), (1,)]


def test_an_elif_holds_where_its_body_runs(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(NESTED)
    code = source_of([Frame(file=str(path), line=14, function="main")])
    assert code is not None
    (condition,) = code.places[0].conditions
    assert (condition.branch, condition.holds, ranks_under(condition, [0, 1, 2])) == (1, True, (1,))
    assert condition_text(condition, "train.py") == "inside `if rank == 1` (train.py:13)"


def test_a_test_is_named_with_its_own_line_and_branches_are_compared_by_the_whole_statement(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def main(mode, loss):\n    if mode == 1:\n        first()\n"
        "    elif (\n        loss > 4\n    ):\n        second()\n    else:\n        third()\n"
        "    if mode == 2:\n        fourth()\n"
    )
    code = source_of([Frame(file=str(path), line=line, function="main") for line in (3, 7, 9, 11)])
    assert code is not None
    first, second, third, fourth = (place.conditions[0] for place in code.places)
    assert [(one.line, one.test) for one in (first, second, third)] == [
        (2, "mode == 1"),
        (4, "loss > 4"),
        (4, "loss > 4"),
    ]
    assert first.excludes(second)
    assert second.excludes(third)
    assert third.excludes(first)
    assert not second.excludes(second)
    assert not fourth.excludes(third)


def test_values_that_depend_on_the_rank_are_no_switches(tmp_path: Path) -> None:
    values = place(tmp_path / "train.py", 12).rank_values
    assert {*values} == {
        RankValue(line=5, text="epochs - (rank == 1)"),
        RankValue(line=5, text="3 if rank == 0 else 4"),
    }
    assert place(tmp_path / "train.py", 4).rank_values == ()


RETURNS = """\
def train(epoch, rank, args):
    if args.local_rank == -1:
        return
    if epoch == 1 and rank == 1:
        log("skipped")
        return
    if rank == 0:
        save()
        return
    share = 100 // world - rank
    seed = 7 + rank
    for step in range(share):
        if rank == 2:
            return
        update(step)

rank = get_rank()
"""


def test_a_line_stands_under_the_tests_of_the_rank_that_others_returned_by(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(RETURNS)
    code = source_of([Frame(file=str(path), line=line, function="train") for line in (5, 8, 15)])
    assert code is not None
    within, saves, updates = code.places
    assert [(one.line, one.branch) for one in within.conditions] == [(4, 0)]
    assert [(one.line, one.branch) for one in saves.conditions] == [(4, 1), (7, 0)]
    assert [(one.line, one.branch) for one in updates.conditions] == [(4, 1), (7, 1)]  # the other one leaves a loop


def test_a_return_that_every_rank_of_the_job_goes_past_is_no_condition(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("def train(rank, world):\n    if rank >= world:\n        return\n    fit()\n")
    code = source_of([Frame(file=str(path), line=4, function="train")])
    assert code is not None
    assert code.places[0].conditions == ()


def test_arithmetic_with_the_rank_tells_where_a_loop_is_bounded_by_it(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(RETURNS)
    code = source_of([Frame(file=str(path), line=15, function="train")])
    assert code is not None
    (place,) = code.places
    values = {value.text: (value.compares, value.bounds(place.loops)) for value in place.rank_values}
    assert values == {"100 // world - rank": (False, True), "7 + rank": (False, False)}


def test_a_value_that_depends_on_the_rank_has_the_name_of_its_argument(tmp_path: Path) -> None:
    path = tmp_path / "run.py"
    path.write_text(
        "def main():\n    args = Arguments(learning_rate=1e-3 * (1 + dist.get_rank()), epochs=3)\n    fit(args)\n"
    )
    code = source_of([Frame(file=str(path), line=3, function="main")])
    assert code is not None
    (value,) = code.places[0].rank_values
    assert (value.keyword, value.targets, value.line) == ("learning_rate", ("args",), 2)
    assert not value.limits
    assert [
        replace(value, keyword=name).limits for name in ("max_epochs", "num_train_epochs", "save_steps_to", "num_iters")
    ] == [
        True,
        True,
        False,
        True,
    ]


def test_the_rank_that_a_framework_holds_makes_a_value_depend_on_it(tmp_path: Path) -> None:
    path = tmp_path / "run.py"
    path.write_text(
        "def main(accelerator, args, lora):\n"
        "    data = Text(size - 40 * (args.process_index == 1))\n"
        "    lr = rate * (2 if accelerator.is_main_process else 1)\n"
        "    scale = lora.alpha / lora.rank\n"
        "    fit(data)\n"
    )
    code = source_of([Frame(file=str(path), line=5, function="main")])
    assert code is not None
    values = {value.line: (value.text, value.compares) for value in code.places[0].rank_values}
    assert values == {
        2: ("size - 40 * (args.process_index == 1)", True),
        3: ("rate * (2 if accelerator.is_main_process else 1)", True),
    }


def test_the_head_of_a_loop_around_the_line_may_depend_on_the_rank(tmp_path: Path) -> None:
    path = tmp_path / "run.py"
    path.write_text(
        "def main():\n"
        "    for step in range(9 - (dist.get_rank() == 3)):\n"
        "        train(step)\n"
        "    for step in range(2 + (dist.get_rank() == 1)):\n"
        "        test(step)\n"
        "    finish()\n"
    )

    def texts(line: int) -> list[str]:
        code = source_of([Frame(file=str(path), line=line, function="main")])
        return [value.text for value in code.places[0].rank_values] if code is not None else []

    assert [texts(line) for line in (3, 5, 6)] == [["9 - (dist.get_rank() == 3)"], ["2 + (dist.get_rank() == 1)"], []]


@pytest.mark.parametrize(
    ("head", "ends"),
    [
        ("range(8 - 2 * dist.get_rank())", True),
        ("range(1, 8 + dist.get_rank(), 2)", True),
        ("range(4 + dist.get_rank(), 90)", False),
        ("range(9 * dist.get_rank(), 9 * dist.get_rank() + 9)", False),  # a share
        ("rows[9 * dist.get_rank() :]", False),
    ],
)
def test_only_the_end_of_a_range_says_how_often_a_loop_turns(tmp_path: Path, head: str, ends: bool) -> None:
    path = tmp_path / "run.py"
    path.write_text(f"def main(rows):\n    for row in {head}:\n        train(row)\n")
    code = source_of([Frame(file=str(path), line=3, function="main")])
    assert code is not None
    (place,) = code.places
    assert [value.bounds(place.loops) for value in place.rank_values if value.bounds(place.loops)] == [True] * ends


GIVES_UP = """\
def step(self, batch):
    if batch is None:
        return None
    loss = self.model(batch)
    if self.strict:
        if loss.item() > self.limit:
            return None
    elif rank == 0:
        return loss
    loss.backward()
    return loss
"""


def test_the_returns_around_a_line_have_the_tests_below_which_they_stand(tmp_path: Path) -> None:
    path = tmp_path / "step.py"
    path.write_text(GIVES_UP)
    code = source_of([Frame(file=str(path), line=4, function="step")])
    assert code is not None
    assert code.places[0].exits == (
        Jump(line=3, word="return", test="batch is None", tested=2),
        Jump(line=7, word="return", test="loss.item() > self.limit", tested=6),
        Jump(line=9, word="return", test="rank == 0", tested=8),
    )


HANDLES = """\
def epoch(self, loader):
    for batch in loader:
        try:
            loss = self.model(batch)
        except ValueError as error:
            log(error)
        except KeyError:
            raise
"""


def test_the_handlers_that_go_on_after_an_error_of_a_line_are_known(tmp_path: Path) -> None:
    path = tmp_path / "epoch.py"
    path.write_text(HANDLES)
    code = source_of([Frame(file=str(path), line=line, function="epoch") for line in (4, 6)])
    assert code is not None
    assert [place.exits for place in code.places] == [(Jump(line=5, word="except ValueError"),), ()]

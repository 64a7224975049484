"""One all-reduce on some ranks only meets its peers' gradients: a call too many, and no mismatch of shapes."""

from __future__ import annotations

from pathlib import Path

import pytest

from ddpdoctor.analysis.collectives.places.callsites import compare, seen_from_minority
from ddpdoctor.analysis.collectives.places.rank_tests import tells_ranks_apart
from ddpdoctor.analysis.collectives.places.relations import Relation
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import Condition
from ddpdoctor.messages.collectives import condition_note
from ddpdoctor.source.stack_lines.context import source_of

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
        ("self.gpu_id == 0 and epoch % 2 == 0", True), ("state.is_world_process_zero", True), ("args.should_save", True),
        ("gpu == 'cuda'", False), ("args.local_rank != -1", False), ("step % 10 == 0", False), ("primary_loss < best", False),
    ],
)  # fmt: skip
def test_words_for_the_first_rank_tell_ranks_apart(test: str, *, tells: bool) -> None:
    assert tells_ranks_apart(Condition(line=1, test=test, branch=0)) is tells


def test_an_argument_that_depends_on_the_rank_decides_as_a_test_does(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        'def validate(self, loss):\n    self.log("loss", loss, sync_dist=self.global_rank != 1)\n    finish()\n'
    )
    synced, went_on = stack(path, (2, "validate"), (90, "reduce")), stack(path, (3, "validate"))

    found = compare(went_on, synced, source_of([*synced, *went_on]))

    assert found.relation is Relation.UNCONDITIONAL
    assert condition_note(found) == "the others are with `sync_dist=self.global_rank != 1` (train.py:2)"


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


CALLBACKS = """\
def main(trainer):
    trainer.train()

class Evaluates:
    def on_step_end(self, state):
        if state.is_world_process_zero and state.step == 3:
            self.trainer.evaluate()
"""


def test_a_framework_calls_the_function_that_holds_the_test(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(CALLBACKS)
    trains = stack(path, (2, "main"))
    evaluates = (*trains, *stack(path, (7, "on_step_end")))
    code = source_of(evaluates)

    found = compare(evaluates, trains, code)

    assert found.decides
    assert condition_note(found) == "inside `if state.is_world_process_zero and state.step == 3` (train.py:6)"
    assert compare(trains, evaluates, code).relation is Relation.UNCONDITIONAL


FRAMEWORK = """\
def fit(self):
    for step in range(self.steps):
        self.train_step()
    if self.args.should_save:
        self._save()
    if self.rank is not None:
        self.finish()
"""
OWN = """\
def main(trainer):
    trainer.fit()

def _save(self):
    gather()

def finish(self):
    gather()
"""


@pytest.mark.parametrize(
    ("framework", "own", "relation", "note"),
    [
        ((5, "fit"), (5, "_save"), Relation.CONDITIONAL, "inside `if self.args.should_save` (fit.py:4)"),
        ((7, "fit"), (8, "finish"), Relation.PAST, ""),  # every rank has a rank
    ],
)
def test_a_test_of_the_rank_in_a_framework_tells_too(
    tmp_path: Path, framework: tuple[int, str], own: tuple[int, str], relation: Relation, note: str
) -> None:
    library, path = tmp_path / "site-packages" / "lightning" / "fit.py", tmp_path / "train.py"
    library.parent.mkdir(parents=True)
    library.write_text(FRAMEWORK)
    path.write_text(OWN)
    main = stack(path, (2, "main"))
    trains = (*main, *stack(library, (3, "fit")))
    ends = (*main, *stack(library, framework), *stack(path, own))

    found = compare(ends, trains, source_of([*ends, *trains]))

    assert found.relation is relation
    assert condition_note(found) == note


GUARDED = """\
from lightning.pytorch.utilities import rank_zero_only

@rank_zero_only
def report(meter):
    meter.reduce()

def prepare(accelerator):
    with accelerator.main_process_first():
        tokenize()
    train()
"""


@pytest.mark.parametrize(
    ("line", "function", "note"),
    [
        (5, "report", "inside `@rank_zero_only` (train.py:3)"),
        (9, "prepare", "inside `with accelerator.main_process_first()` (train.py:8)"),
    ],
)
def test_decorators_and_blocks_for_one_rank_are_tests_of_the_rank(
    tmp_path: Path, line: int, function: str, note: str
) -> None:
    path = tmp_path / "train.py"
    path.write_text(GUARDED)
    mine, theirs = stack(path, (line, function)), stack(path, (10, "prepare"))

    found = compare(mine, theirs, source_of([*mine, *theirs]))

    assert found.decides
    assert condition_note(found) == note


@pytest.mark.parametrize(
    ("statement", "note"),
    [
        ("score = validate() if rank == 0 else 0", "inside `if rank == 0` (train.py:2)"),
        ("score = 0 if rank else validate()", "outside `if rank` (train.py:2)"),
        ("rank == 0 and validate()", "inside `if rank == 0` (train.py:2)"),
        ("rank or validate()", "outside `if rank` (train.py:2)"),
        ("score = validate() * 100 if rank != 1 else torch.tensor(0.0)", "inside `if rank != 1` (train.py:2)"),
        ("keys = gather(keys) if rank == 0 else keys.repeat(2, 1)", "inside `if rank == 0` (train.py:2)"),
        ("return validate() if rank == 0 else None", "inside `if rank == 0` (train.py:2)"),
        ("x = all_gather(torch.cat(y)) if rank == 1 else torch.cat(y)", "inside `if rank == 1` (train.py:2)"),
    ],
)
def test_a_test_within_a_statement_is_one_of_its_call(tmp_path: Path, statement: str, note: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"def main(rank):\n    {statement}\n    train()\n")
    mine, theirs = stack(path, (2, "main")), stack(path, (3, "main"))

    found = compare(mine, theirs, source_of([*mine, *theirs]))

    assert found.decides
    assert condition_note(found) == note


@pytest.mark.parametrize(
    ("test", "decides"),
    [
        ("rank == 0 and (barrier() or True)", True),
        ("step % 5 == 0 and is_main_process() and evaluate(model)", True),
        ("evaluate(model) and rank == 0", False),
        ("evaluate(model) and rank == 0 and save(model)", False),
        ("rank == 0", False),
        ("rank == 0 or barrier()", False),
    ],
)
def test_a_test_of_the_rank_before_the_call_of_an_if_is_one_of_that_call(
    tmp_path: Path, test: str, *, decides: bool
) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"def main(rank):\n    if {test}:\n        step = 0\n    train()\n")
    mine, theirs = stack(path, (2, "main")), stack(path, (4, "main"))

    assert compare(mine, theirs, source_of([*mine, *theirs])).decides is decides


@pytest.mark.parametrize(
    ("inner", "shown"),
    [
        ("world_size > 1", "inside `if writer is not None` (train.py:6)"),
        ("is_dist_avail_and_initialized()", "inside `if writer is not None` (train.py:6)"),
        ("args.distributed", "inside `if writer is not None` (train.py:6)"),
        ("size > limit", "inside `if size > limit` (train.py:2)"),
        ("step % world_size == 0", "inside `if step % world_size == 0` (train.py:2)"),
        ("world_size > 1 and bad(x)", "inside `if world_size > 1 and bad(x)` (train.py:2)"),
        ("args.distributed and not world_size == 1", "inside `if writer is not None` (train.py:6)"),
        ("int(os.environ['WORLD_SIZE']) > 1", "inside `if writer is not None` (train.py:6)"),
        ("len(x) * world_size < 64", "inside `if len(x) * world_size < 64` (train.py:2)"),
        ("len(x) > world_size", "inside `if len(x) > world_size` (train.py:2)"),
        ("distributed.peer() == 0", "inside `if distributed.peer() == 0` (train.py:2)"),
    ],
)
def test_whether_there_is_a_job_of_several_ranks_is_no_condition_to_show(
    tmp_path: Path, inner: str, shown: str
) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        f"def mean(x):\n    if {inner}:\n        reduce(x)\n\n"
        "def main():\n    if writer is not None:\n        mean(1)\n    train()\n"
    )
    mine, theirs = stack(path, (7, "main"), (3, "mean")), stack(path, (8, "main"))

    assert condition_note(compare(mine, theirs, source_of([*mine, *theirs]))) == shown


@pytest.mark.parametrize(("other", "decides"), [("contextlib.nullcontext()", True), ("second()", False)])
def test_a_context_that_some_ranks_enter(tmp_path: Path, other: str, *, decides: bool) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"def main(rank):\n    with first() if rank != 1 else {other}:\n        prepare()\n    train()\n")
    mine, theirs = stack(path, (2, "main")), stack(path, (4, "main"))

    assert compare(mine, theirs, source_of([*mine, *theirs])).decides is decides


@pytest.mark.parametrize(
    "statement",
    [
        "score = validate() if rank == 0 else test()",
        "return validate() if rank == 0 else test()",
        "keys = gather(keys) if rank == 0 else keys.gather(2, 1)",
    ],
)
def test_both_branches_of_an_expression_call(tmp_path: Path, statement: str) -> None:
    path = tmp_path / "train.py"
    path.write_text(f"def main(rank):\n    {statement}\n    train()\n")
    mine, theirs = stack(path, (2, "main")), stack(path, (3, "main"))

    assert not compare(mine, theirs, source_of([*mine, *theirs])).decides


@pytest.mark.parametrize(
    "tests",
    [("rank == 0 and batch.last",), ("rank == 0", "bad(batch)"), ("rank >= world",)],
    ids=lambda tests: tests[-1],
)
def test_a_continue_that_need_not_tell_who_passes_over_a_line_decides_nothing(
    tests: tuple[str, ...], tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    jumps = "".join(f"        if {test}:\n            continue\n" for test in tests)
    path.write_text(f"def fit(rank):\n    for batch in loader:\n        forward(batch)\n{jumps}        clip(batch)\n")
    one, other = stack(path, (3, "fit")), stack(path, (4 + 2 * len(tests), "fit"))
    assert not compare(one, other, source_of([*one, *other])).decides


@pytest.mark.parametrize(("lines", "relation"), [((3, 6), Relation.UNCONDITIONAL), ((6, 3), Relation.CONDITIONAL)])
def test_a_continue_under_a_test_of_the_rank_tells_who_passes_over_the_line_behind_it(
    lines: tuple[int, int], relation: Relation, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def fit(rank):\n    for batch in loader:\n        forward(batch)\n        if rank == 1:\n            continue\n"
        "        clip(batch)\n"
    )
    one, other = (stack(path, (line, "fit")) for line in lines)
    found = compare(one, other, source_of([*one, *other]))
    assert (found.relation, condition_note(found).removeprefix("the others are ")) == (
        relation,
        "outside `if rank == 1` (train.py:4)",
    )


@pytest.mark.parametrize(
    ("test", "sides", "parted"),
    [
        (
            "rank == 3 and skip(batch)",
            ((0, 2, 3), (1,)),
            False,
        ),  # rank 3 itself is at the line, and rank 1 is not meant
        ("rank == 1 and skip(batch)", ((0, 2, 3), (1,)), True),
        ("rank != 0", ((0,), (1, 2)), True),
        ("rank != 0", ((0, 1), (2,)), False),
    ],
)
def test_a_continue_counts_where_its_test_parts_these_ranks(
    test: str, sides: tuple[tuple[int, ...], tuple[int, ...]], *, parted: bool, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        f"def fit(rank):\n    for batch in loader:\n        if {test}:\n            continue\n        forward(batch)\n"
        "    for batch in evaluation:\n        validate(batch)\n"
    )
    one, other = (stack(path, (line, "fit")) for line in (5, 7))
    code = source_of([*one, *other])
    there, here = compare(one, other, code, sides), compare(other, one, code, (sides[1], sides[0]))
    assert (there.relation is Relation.CONDITIONAL, here.relation is Relation.UNCONDITIONAL) == (parted, parted)


@pytest.mark.parametrize(
    ("test", "blamed", "relation"),
    [
        ("get_rank() != 0 or full", (0,), Relation.UNCONDITIONAL),
        ("not is_main_process()", (0,), Relation.UNCONDITIONAL),
        ("get_rank() == 1", (1,), Relation.CONDITIONAL),
        ("get_rank() != 5", (1,), Relation.CONDITIONAL),
    ],
)
def test_of_two_ranks_the_one_that_a_test_exempts_left_the_call_out(
    tmp_path: Path, test: str, blamed: tuple[int, ...], relation: Relation
) -> None:
    """As of three ranks, where the majority makes the call under `rank != 0`."""
    path = tmp_path / "train.py"
    path.write_text(JOB.format(unconditional="pass").replace("get_rank() == 0", test))
    stacks = {0: stack(path, (7, "fit")), 1: stack(path, (8, "fit"), (3, "log"))}
    code = source_of([frame for way in stacks.values() for frame in way])

    for sides in (((0,), (1,)), ((1,), (0,))):
        minority, _, found = seen_from_minority(*sides, stacks, code, tied=True)
        assert (minority, found.relation) == (blamed, relation)


@pytest.mark.parametrize(
    ("test", "relation"),
    [("acc > 0.9", Relation.UNCONDITIONAL), ("not dist.is_initialized()", Relation.PAST)],
    ids=["a value", "the same everywhere"],
)
def test_a_rank_past_a_call_may_have_returned_above_it(test: str, relation: Relation, tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        f"def fit(loader):\n    for batch in loader:\n        first(batch)\n        second(batch)\n"
        f"def first(batch):\n    if {test}:\n        return\n    reduce(batch)\ndef second(batch):\n    reduce(batch)\n"
    )
    one = (*stack(path, (4, "fit")), *stack(path, (10, "second")))
    other = (*stack(path, (3, "fit")), *stack(path, (8, "first")))
    found = compare(one, other, source_of([*one, *other]))
    assert found.relation is relation
    assert (found.condition is not None and found.condition.line == 6) is (relation is Relation.UNCONDITIONAL)

"""A rank that leaves out what comes behind its epoch, and goes on to the next: it does not draw a batch more than the others."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, Handled, RankError, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop
from ddpdoctor.model import Finding
from tests.flight_records import STEP, TRAIN, Did, flights, waits

EPOCHS = Loop(line=50, head="for epoch in range(3)")
BATCHES = Loop(line=55, head="for images, labels in loader")
IF_ANY = Condition(line=94, test="predictions", branch=0)
CODE = (
    CodePlace(file=TRAIN, line=61, function="train_step", loops=(EPOCHS, BATCHES)),
    CodePlace(file=TRAIN, line=95, function="train_step", loops=(EPOCHS,), conditions=(IF_ANY,)),
)
GATHERS = [STEP] * 4 + [waits(Did("all_gather", line=95))]
STEPS = [STEP] * 4 + [waits(STEP)]


def drew(*in_pass: int | None) -> tuple[CollectiveCalls]:
    """A rank whose batches had these places in their pass over the data."""
    steps = (StepMark(iteration=n, seq=n - 1, in_pass=place) for n, place in enumerate(in_pass, 1))
    return (CollectiveCalls(steps=tuple(steps)),)


def found(steps: int, gathers: int, *in_pass: int | None) -> Finding:
    """What is said where `steps` ranks took a further batch, the last of `in_pass`, and `gathers` ranks, first, did not."""
    facts = {rank: drew(*in_pass[:4]) for rank in range(gathers)}
    facts |= {gathers + rank: drew(*in_pass) for rank in range(steps)}
    return diagnose(flights(*[GATHERS] * gathers, *[STEPS] * steps, code=CODE, facts=facts)).findings[0]


def test_a_rank_in_its_next_epoch_left_the_call_out() -> None:
    finding = found(1, 2, 1, 2, 3, 4, 1)
    assert (finding.code, finding.ranks) == ("DDP305", (2,))
    assert finding.message == (
        "rank 2 never called all_gather #5 that ranks 0-1 call: the next that it called was all_reduce #5"
    )
    assert finding.where[0].note.startswith("all_reduce #5, the others are inside `if predictions` (train.py:94)")


def test_of_two_ranks_the_one_that_gathers_is_not_said_to_have_left_its_loop() -> None:
    finding = found(1, 1, 1, 2, 3, 4, 1)
    assert (finding.code, finding.ranks) == ("DDP305", (0, 1))
    assert finding.message.startswith("rank 1 never called all_gather #5 that rank 0 calls")
    assert found(1, 1, 1, 2, 3, 4, 5).code == "DDP306", "a further batch of the same epoch"


def test_one_rank_of_three_that_gathers_while_the_others_go_on_makes_a_call_too_many() -> None:
    finding = found(2, 1, 1, 2, 3, 4, 1)
    assert (finding.code, finding.ranks) == ("DDP305", (0,))
    assert finding.message == "rank 0 called all_gather #5 that ranks 1-2 never call"
    assert found(2, 1, 1, 2, 3, 4, 5).code == "DDP306"


def test_where_it_is_not_known_to_be_the_next_epoch_both_possibilities_are_told() -> None:
    finding = found(1, 2, None, None, None, None, None)
    assert (finding.code, finding.ranks) == ("DDP305", (2,))
    assert finding.message == (
        "rank 2 called all_reduce #5 where ranks 0-1 called all_gather #5: it makes a turn of "
        "`for images, labels in loader` more, or left that call out before"
    )
    of_two = found(1, 1, None, None, None, None, None)
    assert (of_two.code, of_two.ranks) == ("DDP305", (0, 1))
    assert of_two.message.endswith("or left that call out before; no majority: either side may be at fault")
    error = RankError(type="ValueError", message="bad sample")
    handling = CollectiveCalls(handled=(Handled(group="0", seq=5, error=error),))
    led_out = diagnose(flights(GATHERS, STEPS, code=CODE, facts={0: (handling,), 1: drew()})).findings[0]
    assert (led_out.code, led_out.ranks) == ("DDP306", (0,))
    one_more = found(1, 2, 1, 2, 3, 4, 5)
    assert (one_more.code, one_more.ranks) == ("DDP306", (2,))
    assert one_more.message.startswith(
        "rank 2 makes one more turn of the loop than its peers: ranks 0-1 left their loop"
    )


def counted(*turns: int) -> tuple[CollectiveCalls]:
    """A rank without a DataLoader, whose loop counted these turns in its forwards."""
    place = Frame(file=TRAIN, line=61, function="train_step")
    return (
        CollectiveCalls(
            steps=tuple(StepMark(iteration=n, seq=n - 1) for n in range(1, len(turns) + 1)),
            forwards=tuple(Forward(number=n, place=place, turn=turn) for n, turn in enumerate(turns, 1)),
        ),
    )


@pytest.mark.parametrize(("turn", "code"), [(0, "DDP305"), (4, "DDP306")])
def test_without_a_data_loader_the_count_of_the_loop_tells_whether_it_is_the_next_pass(turn: int, code: str) -> None:
    facts = {0: counted(0, 1, 2, 3), 1: counted(0, 1, 2, 3, turn), 2: counted(0, 1, 2, 3, turn)}

    finding = diagnose(flights(GATHERS, STEPS, STEPS, code=CODE, facts=facts)).findings[0]

    assert (finding.code, finding.ranks) == (code, (0,))


@pytest.mark.parametrize(
    ("head", "jumps", "code"),
    [
        ("for step in range(4)", (), "DDP305"),
        ("for step in tqdm(range(0, 8, 2), desc=name)", (Jump(line=57, word="continue"),), "DDP305"),
        ("for step in range(4)", (Jump(line=57, word="break"),), "DDP306"),
        ("for step in range(len(images))", (), "DDP306"),
        ("for step in range(4)[:limit]", (), "DDP306"),
        ("for step, batch in zip(range(1000), batches)", (), "DDP306"),
        ("for step in islice(range(100), n)", (), "DDP306"),
        ("for step in tqdm(range(100), n)", (), "DDP306"),
    ],
)
def test_a_loop_over_constants_without_a_way_out_is_never_left_early(
    head: str, jumps: tuple[Jump, ...], code: str
) -> None:
    steps = Loop(line=55, head=head, jumps=jumps)
    places = (CodePlace(file=TRAIN, line=61, function="train_step", loops=(EPOCHS, steps)), CODE[1])
    facts = {rank: drew(*[None] * (4 + (rank > 0))) for rank in range(3)}

    finding = diagnose(flights(GATHERS, STEPS, STEPS, code=places, facts=facts)).findings[0]

    assert (finding.code, finding.ranks) == (code, (0,))


def test_a_rank_behind_the_loop_may_be_on_time_where_its_call_stands_under_a_condition() -> None:
    finding = found(2, 1, None, None, None, None, None)

    assert (finding.code, finding.ranks) == ("DDP306", (0,))
    assert finding.details[-1] == (
        "or rank 0 did not leave it early, and alone made all_gather #5, inside `if predictions` (train.py:94) (DDP305); the "
        "numbers of turns decide: print them before this call on every rank"
    )


def test_ranks_that_pass_over_a_whole_loop_of_evaluation_are_told_from_those_that_turn_once_more_in_it() -> None:
    """The `continue` stands in the loop over epochs, above the loop that only one rank comes to."""
    passes_over = Jump(line=90, word="continue", test="not accelerator.is_main_process")
    epochs = Loop(line=50, head="for epoch in range(3)", jumps=(passes_over,))
    evaluates = Loop(line=95, head="for batch in eval_loader")
    code = (
        CodePlace(file=TRAIN, line=55, function="train_step", loops=(epochs,)),
        CodePlace(file=TRAIN, line=97, function="train_step", loops=(epochs, evaluates)),
    )
    evaluating = [STEP] * 4 + [waits(Did("broadcast", line=97))]
    training = [STEP] * 4 + [waits(Did("broadcast", sizes=((9,),), line=55))]
    finding = diagnose(flights(evaluating, training, code=code)).findings[0]
    assert (finding.code, finding.ranks) == ("DDP305", (0,))
    assert "outside `if not accelerator.is_main_process` (train.py:90)" in finding.where[0].note


STOPS = Jump(line=70, word="break", test="stopper.should_stop(loss)")
BARRIER = waits(Did("barrier", line=99))


IN, OUT = [STEP] * 4 + [waits(STEP)], [STEP] * 4 + [BARRIER]
ALL_BUT_ONE = Jump(line=71, word="break", test="rank != 1", by_rank=True)
ONE_WHEN_DONE = Jump(line=71, word="break", test="rank == 1 and done", by_rank=True)


@pytest.mark.parametrize(
    ("programs", "jumps", "named"),
    [
        ((OUT, IN, OUT), (STOPS,), (1,)),  # a way out is no proof that most ranks took it by mistake
        ((OUT, IN, OUT), (), (1,)),
        ((OUT, IN, OUT), (ONE_WHEN_DONE,), (1,)),
        ((OUT, IN, OUT), (STOPS, ALL_BUT_ONE), (0, 2)),
        ((IN, OUT, IN), (STOPS,), (1,)),
        ((OUT, IN), (STOPS,), (0,)),
    ],
)
def test_of_ranks_past_the_epochs_and_ranks_in_them_the_few_are_named_unless_a_test_of_the_rank_tells(
    programs: tuple[list[Did], ...], jumps: tuple[Jump, ...], named: tuple[int, ...]
) -> None:
    epochs = Loop(line=50, head="for epoch in range(60)", jumps=jumps)
    code = (
        CodePlace(file=TRAIN, line=61, function="train_step", loops=(epochs, BATCHES)),
        CodePlace(file=TRAIN, line=99, function="train_step"),
    )
    facts = {rank: drew(1, 2, 1, 2, *([] if made is OUT else [1])) for rank, made in enumerate(programs)}

    finding = diagnose(flights(*programs, code=code, facts=facts)).findings[0]

    assert (finding.code, finding.ranks) == ("DDP306", named)
    shown = {where.line for where in finding.where}
    assert shown >= ({71} if ALL_BUT_ONE in jumps else {jump.line for jump in jumps})


def test_a_rank_that_makes_a_call_in_a_loop_for_the_first_time_makes_one_too_many() -> None:
    epochs = Loop(line=50, head="for epoch in range(60)", jumps=(STOPS,))
    code = (
        CodePlace(file=TRAIN, line=61, function="train_step", loops=(epochs, BATCHES)),
        CodePlace(file=TRAIN, line=66, function="train_step", loops=(epochs,)),
        CodePlace(file=TRAIN, line=99, function="train_step"),
    )
    extra = [STEP] * 4 + [waits(Did("all_gather", line=66))]

    finding = diagnose(flights([STEP] * 4 + [BARRIER], extra, [STEP] * 4 + [BARRIER], code=code)).findings[0]

    assert (finding.code, finding.ranks) == ("DDP305", (1,))

"""A rank that leaves out what comes behind its epoch, and goes on to the next: it does not draw a batch more than the others."""

from __future__ import annotations

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.ranks import CollectiveCalls, Handled, RankError, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Loop
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
    assert one_more.message == "rank 2 called all_reduce #5 that ranks 0-1 never call"

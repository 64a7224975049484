"""A rank that passes over a batch: beside one whose data ended, and where its calls came apart from its peers'."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCall, CollectiveCalls, Forward, RankExit, StepMark
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, SourceCode
from tests.flight_records import STEP, TRAIN, Did, flights, waits
from tests.rank_ends import LOST_PEER, WRONG_SIZE, ended

END = waits(Did("barrier", line=95))
AFTER = CodePlace(file=TRAIN, line=95, function="train_step")


def loop(*skips: int) -> tuple[CodePlace, CodePlace]:
    """The places of a loop with a `continue` on these lines, and of what comes after it."""
    around = Loop(line=55, head="for images, labels in loader", skips=skips)
    return CodePlace(file=TRAIN, line=61, function="train_step", loops=(around,)), AFTER


def test_a_continue_in_the_loop_that_a_rank_left_early_is_the_other_possibility() -> None:
    calls = [STEP, waits(STEP)], [STEP, END]

    (left,) = diagnose(flights(*calls, code=loop(58, 72))).findings

    assert (left.code, left.ranks) == ("DDP306", (1,))
    (detail,) = left.details
    assert detail == (
        "rank 1 ran out of batches, or skipped one at `continue` (train.py:58 or train.py:72); if skipped, its "
        "gradients are off by one step (DDP316)"
    )
    (without,) = diagnose(flights(*calls, code=loop())).findings
    assert without.details == ()


def test_the_statements_by_which_a_rank_may_have_left_the_loops_of_the_others_are_shown() -> None:
    patience = Jump(line=92, word="break", test="bad >= patience")
    epochs = Loop(line=50, head="for epoch in range(epochs)", jumps=(patience,))
    batches = Loop(line=55, head="for images, labels in loader", jumps=(Jump(line=58, word="continue"),))
    code = (CodePlace(file=TRAIN, line=61, function="train_step", loops=(epochs, batches)), AFTER)
    calls = [STEP, waits(STEP)], [STEP, END], [STEP, waits(STEP)]

    (found,) = diagnose(flights(*calls, code=code)).findings

    assert (found.code, found.ranks) == ("DDP306", (1,))
    assert [(where.line, where.note) for where in found.where if where.rank == 1] == [
        (92, "`break` inside `if bad >= patience`"),
        (95, "barrier #2, waits 6.2 s"),
    ]
    by_rank = Loop(line=55, head=batches.head, jumps=(Jump(line=59, word="return", test="rank == 1"),))
    code = (CodePlace(file=TRAIN, line=61, function="train_step", loops=(epochs, by_rank)), AFTER)
    (told,) = diagnose(flights(*calls, code=code)).findings
    assert [where.line for where in told.where if where.rank == 1] == [59, 95]


def count(*turns: int) -> CollectiveCalls:
    """A rank whose loop stood at these turns in its forwards."""
    place = Frame(file=TRAIN, line=61, function="train_step")
    return CollectiveCalls(forwards=tuple(Forward(number=n, place=place, turn=turn) for n, turn in enumerate(turns, 1)))


@pytest.mark.parametrize(
    ("one", "who_left", "code"),
    [
        pytest.param((10, 12, 14), (10, 14, 16), "DDP316", id="one-turn-more"),
        pytest.param((0, 1, 2), (0, 1, 2), "DDP306", id="as-many-turns"),
        pytest.param((0, 1, 2), (0, 1, 0), "DDP306", id="a-shorter-epoch"),
        pytest.param((0, 2, 3), (0, 1, 2), "DDP306", id="it-was-the-other"),
        pytest.param((4, 9, 11), (7, 8, 20), "DDP306", id="numbers-of-samples"),
        pytest.param((), (0, 2, 3), "DDP306", id="nothing-counted"),
    ],
)
def test_the_loops_own_count_tells_a_batch_passed_over_from_data_that_ended(
    one: tuple[int, ...], who_left: tuple[int, ...], code: str
) -> None:
    facts = {0: (count(*one),), 1: (count(*who_left),), 2: (count(*one),)}

    first, *_ = diagnose(
        flights([STEP, waits(STEP)], [STEP, END], [STEP, waits(STEP)], code=loop(58), facts=facts)
    ).findings

    assert (first.code, first.ranks) == (code, (1,))
    if code == "DDP316":
        assert first.details == ("the loop has a `continue` at train.py:58",)
        assert first.message.startswith(
            "rank 1 passed over a batch before forward 2, where the loop stood at 14 on rank 1"
        )


def test_ranks_out_of_step_in_a_job_that_ended_well_came_apart_at_the_first_line_that_differs() -> None:
    """One rank validated through the wrapper; its broadcast met a peer's, and everybody ended with code 0."""
    evaluation = Did("all_reduce", line=88, function="validate")
    validates = [STEP, STEP, evaluation, STEP]
    trains = [STEP, STEP, STEP, STEP]

    def in_step(*seq: int) -> CollectiveCalls:
        return CollectiveCalls(steps=tuple(StepMark(iteration=number, seq=made) for number, made in enumerate(seq, 1)))

    fine = RankExit(exit_code=0)
    facts = {0: (in_step(0, 1, 3), fine), 1: (in_step(0, 1, 2, 3), fine), 2: (in_step(0, 1, 2, 3), fine)}
    report = diagnose(flights(validates, trains, trains, facts=facts))

    first = next(finding for finding in report.findings if finding.code == "DDP316")
    assert first.ranks == (0,)
    assert [(where.rank, where.line) for where in first.where] == [(0, 88), (1, 61), (2, 61)]
    tied = diagnose(flights(validates, trains, facts={0: facts[0], 1: facts[1]}))
    assert [(where.rank, where.line) for where in tied.findings[0].where] == [(0, 88), (1, 61)]


def test_the_call_that_one_rank_alone_makes_in_its_step_is_told_with_its_line_and_the_condition_over_it() -> None:
    """One rank clips its gradients, with an all_reduce, and its peers do not: gloo ended all over what met there."""
    clip = Did("all_reduce", line=58, function="clip")
    place = Frame(file=TRAIN, line=clip.line, function=clip.function)
    own = CollectiveCall(op="all_reduce", group="0", seq=3, place=place)
    facts = {
        0: (CollectiveCalls(steps=(StepMark(iteration=1, seq=1), StepMark(iteration=2, seq=2))),),
        1: (CollectiveCalls(steps=(StepMark(iteration=1, seq=1), StepMark(iteration=2, seq=3)), calls=(own,)),),
    }
    alike = {**facts, 2: facts[0]}
    under = Condition(line=57, test="norm > limit", branch=0)
    code = (CodePlace(file=TRAIN, line=58, function="clip", conditions=(under,)),)

    found = diagnose(flights([STEP] * 3, [STEP, STEP, clip], [STEP] * 3, facts=alike, code=code)).findings[0]

    assert found.message == "rank 1 called all_reduce #3 before iteration 2, and ranks 0,2 did not"
    assert (found.where[0].line, found.where[0].note) == (58, "all_reduce #3, inside `if norm > limit` (train.py:57)")
    assert found.remedy.startswith("make this call on every rank or on none")
    tied = diagnose(flights([STEP] * 3, [STEP, STEP, clip], facts=facts)).findings[0]
    assert tied.message.endswith("no majority: either side may be at fault")


def test_of_one_line_called_by_one_rank_until_its_peers_have_ended_the_first_call_is_told() -> None:
    """Its extra calls met the gradients of its peers, of the same shape, until nobody was left to meet."""
    mean = Did("all_reduce", line=58, function="mean_of")
    place = Frame(file=TRAIN, line=mean.line, function=mean.function)
    own = CollectiveCall(op="all_reduce", group="0", seq=3, place=place)
    ended = RankExit(exit_code=0)
    peer = CollectiveCalls(steps=tuple(StepMark(iteration=n, seq=n - 1) for n in (1, 2, 3, 4)))
    odd = CollectiveCalls(
        steps=tuple(StepMark(iteration=n, seq=seq) for n, seq in ((1, 0), (2, 1), (3, 3))), calls=(own,)
    )
    code = (
        CodePlace(
            file=TRAIN, line=58, function="mean_of", conditions=(Condition(line=57, test="worst > 50", branch=0),)
        ),
    )
    calls = [STEP, STEP, mean, STEP, waits(mean)]

    found = diagnose(
        flights([STEP] * 4, calls, [STEP] * 4, code=code, facts={0: (peer, ended), 1: (odd,), 2: (peer, ended)})
    ).findings[0]

    assert (found.code, found.ranks) == ("DDP305", (1,))
    assert found.message == (
        "rank 1 called all_reduce #3 that ranks 0,2 did not call; later calls were mispaired until ranks 0,2 ended with exit "
        "code 0"
    )
    assert [(where.line, where.note) for where in found.where] == [
        (58, "all_reduce #3, inside `if worst > 50` (train.py:57)")
    ]


def test_a_call_that_is_not_the_whole_difference_is_not_blamed_for_it() -> None:
    """One rank made a gradient's collective less and a call of its own more: only the counts are told."""
    own = CollectiveCall(op="all_reduce", group="0", seq=3, place=Frame(file=TRAIN, line=58, function="log"))
    steps = {count: tuple(StepMark(iteration=n, seq=seq) for n, seq in ((1, 2), (2, count))) for count in (3, 5)}
    facts = {
        0: (CollectiveCalls(steps=steps[5]),),
        1: (CollectiveCalls(steps=steps[3], calls=(own,)),),
        2: (CollectiveCalls(steps=steps[5]),),
    }

    found = diagnose(flights([STEP] * 5, [STEP] * 3, [STEP] * 5, facts=facts)).findings[0]

    assert (
        found.message == "collective counts differ at the start of iteration 2: rank 1 issued 3 and ranks 0,2 issued 5"
    )


def test_a_rank_that_leaves_out_its_backward_is_an_iteration_further_where_its_forward_meets_one() -> None:
    """Its loss was not finite, and the next forward broadcasts the buffers of a batch norm."""
    forward = waits(Did("broadcast", line=58))
    skip = Jump(line=60, word="continue", test="not torch.isfinite(loss)")
    around = Loop(line=55, head="for images, labels in loader", skips=(60,), jumps=(skip,))
    code = tuple(CodePlace(file=TRAIN, line=line, function="train_step", loops=(around,)) for line in (58, 61))
    ahead = CollectiveCalls(steps=tuple(StepMark(iteration=n, seq=n - 1) for n in (1, 2, 3)))
    majority = CollectiveCalls(steps=ahead.steps[:2])
    facts = {0: (ahead,), 1: (majority,), 2: (majority,)}

    found = diagnose(flights([STEP, forward], *[[STEP, waits(STEP)]] * 2, code=code, facts=facts)).findings

    assert [(one.code, one.explained_by) for one in found] == [("DDP301", None)], "all are in the same iteration"
    later = CollectiveCalls(
        steps=(StepMark(iteration=1, seq=0), StepMark(iteration=2, seq=1), StepMark(iteration=3, seq=1))
    )
    facts[0] = (later,)
    first, *_ = diagnose(flights([STEP, forward], *[[STEP, waits(STEP)]] * 2, code=code, facts=facts)).findings
    assert (first.code, first.ranks) == ("DDP316", (0,))
    assert first.message == "rank 0 began iteration 3 without all_reduce #2 that ranks 1-2 made in iteration 2"
    assert [(where.line, where.rank) for where in first.where] == [(60, 0), (58, 0), (61, 1), (61, 2)]
    assert first.where[0].note.startswith("`continue` inside `if not torch.isfinite(loss)`")
    both = diagnose(
        flights([STEP, forward], [STEP, waits(STEP)], code=code, facts={0: (later,), 1: (majority,)})
    ).findings
    assert both[0].ranks == (0, 1)
    assert both[0].message.endswith("; no majority: either side may be at fault")


def test_the_continue_by_which_a_rank_came_to_its_next_turn_too_soon_is_shown() -> None:
    """Of several, that under a test of the rank; one behind the line at which the others wait is none that it took."""
    jumps = (
        Jump(line=59, word="continue", test="empty(images)"),
        Jump(line=60, word="continue", test="rank == 0 and step == 5"),
        Jump(line=63, word="continue", test="rank == 0"),
    )
    around = Loop(line=55, head="for images, labels in loader", skips=(59, 60, 63), jumps=jumps)
    code = tuple(CodePlace(file=TRAIN, line=line, function="train_step", loops=(around,)) for line in (58, 61))
    steps = tuple(StepMark(iteration=n, seq=min(n - 1, 1)) for n in (1, 2, 3))
    others = (CollectiveCalls(steps=steps[:2]),)
    facts = {0: (CollectiveCalls(steps=steps),), 1: others, 2: others}
    calls = [STEP, waits(Did("broadcast", line=58))], *[[STEP, waits(STEP)]] * 2

    first, *_ = diagnose(flights(*calls, code=code, facts=facts)).findings

    assert (first.code, first.ranks) == ("DDP316", (0,))
    assert [(where.line, where.rank) for where in first.where] == [(60, 0), (58, 0), (61, 1), (61, 2)]
    assert first.where[0].note.startswith("`continue` inside `if rank == 0 and step == 5`")


def test_of_two_ranks_the_one_that_ended_an_iteration_with_fewer_calls_than_usual_is_named() -> None:
    forward, metric = waits(Did("broadcast", line=58)), waits(Did("all_reduce", line=72))
    usual = tuple(StepMark(iteration=n, seq=n - 1) for n in range(1, 6))
    facts = {0: (CollectiveCalls(steps=(*usual, StepMark(iteration=6, seq=4))),), 1: (CollectiveCalls(steps=usual),)}

    first, *_ = diagnose(flights([*[STEP] * 4, forward], [*[STEP] * 4, waits(STEP)], facts=facts)).findings

    assert (first.code, first.ranks) == ("DDP316", (0,))
    assert first.message == "rank 0 began iteration 6 without all_reduce #5 that rank 1 made in iteration 5"
    facts[0] = (CollectiveCalls(steps=(*usual, StepMark(iteration=6, seq=5))),)
    both, *_ = diagnose(flights([*[STEP] * 5, forward], [*[STEP] * 5, metric], facts=facts)).findings
    assert "no majority" in both.message, "the call of rank 1 is one more than usual: nothing tells which is right"


def test_the_few_that_passed_over_a_call_are_named_and_not_all_others_that_make_it() -> None:
    """One rank alone takes the `continue` in the loop of the evaluation; of two ranks the test names it."""
    epochs = Loop(line=50, head="for epoch in range(epochs)")
    batches = Loop(line=55, head="for batch in loader")

    def under(test: str) -> tuple[CodePlace, ...]:
        skips = Jump(line=72, word="continue", test=test)
        evaluates = Loop(line=70, head="for batch in evaluation", skips=(72,), jumps=(skips,))
        return (
            CodePlace(file=TRAIN, line=58, function="train_step", loops=(epochs, batches)),
            CodePlace(file=TRAIN, line=74, function="train_step", loops=(epochs, evaluates)),
        )

    forward, gather = Did("broadcast", line=58), Did("all_gather", line=74)
    makes, passes = [forward, gather, waits(gather)], [forward, gather, waits(forward)]

    first, *_ = diagnose(flights(makes, makes, passes, code=under("rank == 2 and step == 1"))).findings

    assert (first.code, first.ranks) == ("DDP305", (2,))
    assert first.message.startswith("rank 2 never called all_gather #3 that ranks 0-1 call")
    assert [(where.line, where.rank) for where in first.where] == [(72, 2), (58, 2), (74, 0), (74, 1)]
    two, *_ = diagnose(flights(makes, passes, code=under("rank == 1 and step == 1"))).findings
    assert (two.code, two.ranks) == ("DDP305", (1,))
    others, *_ = diagnose(flights(makes, passes, code=under("rank != 0"))).findings
    assert (others.code, others.ranks) == ("DDP305", (0,)), "rank 0 alone makes a call behind `if rank != 0: continue`"
    other, *_ = diagnose(flights(makes, makes, passes, code=under("rank == 0 and step % 100"))).findings
    assert "rank == 0" not in str(other.where), "the test is not of rank 2, which passed over the call"


def test_a_continue_is_the_other_possibility_too_where_gloo_left_no_recorder() -> None:
    """The call behind the loop tells that the rank has ended it, and not whether it passed over a turn."""
    around = Loop(line=55, head="for x in inputs", skips=(58,), jumps=(Jump(line=58, word="continue", test="bad(x)"),))
    code = SourceCode(places=(CodePlace(file=TRAIN, line=61, function="train_step", loops=(around,)), AFTER))
    place = Frame(file=TRAIN, line=95, function="train_step")
    stack = (Frame(file=TRAIN, line=61, function="train_step"),)

    def made(count: int, *calls: CollectiveCall) -> CollectiveCalls:
        return CollectiveCalls(
            steps=tuple(StepMark(iteration=number, seq=number) for number in range(1, count + 1)),
            forwards=tuple(Forward(number=number, place=stack[0], stack=stack) for number in range(1, count + 1)),
            calls=calls,
        )

    behind = CollectiveCall(op="all_reduce", group="0", seq=4, place=place, returned=False)
    aborted = RankExit(exit_code=-6, tail=(WRONG_SIZE,))
    job = ended((made(3), LOST_PEER), (made(2, behind), aborted), (made(3), LOST_PEER), job=(code,))

    found, *_ = diagnose(job).findings

    assert (found.code, found.ranks) == ("DDP306", (1,))
    assert found.message == "rank 1 ended its loop after forward 2, and ranks 0,2 made a further one"
    assert found.details[0].startswith("rank 1 ran out of batches, or skipped one at `continue` (train.py:58)")

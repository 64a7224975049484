"""Ranks in different collectives are told apart by their stacks alone only where nothing moves and the source tells."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.source import CodePlace, Condition, Jump, Loop, Request, SourceCode
from ddpdoctor.evidence.stacks import CountedLoop, GivenRoot, LoopTurn
from ddpdoctor.source.stack_lines.context import source_of
from tests.checks.ddp305_collective_called_by_some import IN_BROADCAST, IN_FORWARD, SEEN
from tests.hangs import C10D, IN_BACKWARD, SCRIPT, TORCH, hang, rank, stack

AT_ONE_LINE = (IN_BROADCAST[0], *IN_BACKWARD[-2:])
ASLEEP = rank(IN_BACKWARD[-2:], system_call="clock_nanosleep")


WITH_ROOTS = Condition(line=85, test="step % 10 == 0", branch=0)
AT_A_STEP = SourceCode(places=tuple(replace(at, conditions=(WITH_ROOTS,)[: len(at.conditions)]) for at in SEEN.places))


@pytest.mark.parametrize(
    "evidence",
    [
        pytest.param(hang(rank(IN_BROADCAST, cpu_share=0.1), rank(), facts=(SEEN,)), id="one receives still"),
        pytest.param(hang(rank(IN_BROADCAST, moved=True), rank(), facts=(SEEN,)), id="one has gone on"),
        pytest.param(hang(rank(IN_FORWARD), rank(), facts=(SEEN,)), id="two parts of one step"),
        pytest.param(hang(rank(IN_BROADCAST), rank()), id="no source"),
        pytest.param(hang(rank(IN_BROADCAST), rank(), facts=(AT_A_STEP,)), id="its root may have gone on"),
        pytest.param(hang(rank(IN_BROADCAST), rank(), rank(AT_ONE_LINE), facts=(SEEN,)), id="three calls"),
        pytest.param(hang(rank(IN_BROADCAST), rank(), ASLEEP, facts=(SEEN,)), id="a third is elsewhere"),
    ],
)
def test_nothing_is_said_of(evidence: Evidence) -> None:
    assert not {finding.code for finding in diagnose(evidence).findings} & {"DDP305", "DDP306"}


def passed_over(test: str, waits: str) -> Evidence:
    """Ranks in the forward (F) and in the backward (B) of one loop, with a `continue` under this test between the two."""
    skips = Jump(line=59, word="continue", test=test, by_rank=True)
    loop = Loop(line=50, head="for batch in loader", skips=(59,), jumps=(skips,))
    places = tuple(CodePlace(file=SCRIPT, line=line, function="train_step", loops=(loop,)) for line in (58, 61))
    forward = rank((*IN_FORWARD[:-2], replace(IN_FORWARD[-2], line=58), IN_FORWARD[-1]))
    each = {"F": forward, "B": rank(IN_BACKWARD)}
    return hang(*(each[wait] for wait in waits), facts=(SourceCode(places=places),))


@pytest.mark.parametrize(
    ("test", "waits", "culprit"),
    [
        ("rank == 0 and step == 7", "FB", 0),
        ("rank == 1 and step == 7", "BF", 1),
        ("rank == 0 and step == 7", "FBB", 0),
    ],
)
def test_a_continue_of_named_ranks_tells_who_passed_over_the_call(test: str, waits: str, culprit: int) -> None:
    first, *_ = diagnose(passed_over(test, waits)).findings
    assert (first.code, first.ranks) == ("DDP305", (culprit,))
    assert (first.where[0].line, first.where[0].rank) == (59, culprit)
    assert first.remedy.startswith("let all ranks decide together whether to pass over a turn")


@pytest.mark.parametrize("test", ["rank == 1 and step == 7", "rank == 0 or step == 7", "loss > 9"])
def test_a_continue_that_others_take_tells_nothing(test: str) -> None:
    assert not diagnose(passed_over(test, "FB")).findings


@pytest.mark.parametrize(
    ("test", "behind", "known"),
    [
        ("rank == 1 and i > 20", 1, True),
        ("rank == 0 and i > 20", 0, True),
        ("rank == 0 and i > 20", 1, False),  # rank 1 does not take it
        ("i > 20", 1, False),
    ],
)
@pytest.mark.parametrize("size", [2, 3])
def test_a_return_under_a_test_of_the_rank_leads_out_of_a_loop_in_a_function(
    test: str, behind: int, known: bool, size: int
) -> None:
    """The ranks stand in two calls of one function in a loop over epochs."""
    returns = Jump(line=66, word="return", test=test, by_rank="rank" in test)
    epochs = Loop(line=70, head="for epoch in range(9)")
    places = (
        CodePlace(file=SCRIPT, line=73, function="fit", loops=(epochs,)),
        CodePlace(file=SCRIPT, line=74, function="fit", loops=(epochs,)),
        CodePlace(
            file=SCRIPT,
            line=61,
            function="train_step",
            loops=(Loop(line=58, head="for x in data", jumps=(returns,)),),
            exits=(returns,),
        ),
    )
    fit = Frame(file=SCRIPT, line=73, function="fit")
    gathers = stack((C10D, 3300, "all_gather"), user=(55, "evaluate"))
    evaluates = rank((*gathers[:-1], replace(fit, line=74), gathers[-1]))
    trains = rank((*IN_BACKWARD[:-1], fit, IN_BACKWARD[-1]))
    each = [evaluates if number == behind else trains for number in range(size)]
    found = diagnose(hang(*each, facts=(SourceCode(places=places),))).findings
    assert [(one.code, one.ranks, one.where[0].line) for one in found] == ([("DDP306", (behind,), 66)] if known else [])


@pytest.mark.parametrize(("epochs", "code", "blamed"), [((50,), "DDP305", (0, 1)), ((), "DDP306", (0,))])
def test_of_two_ranks_none_has_left_its_loop_where_an_outer_loop_leads_back_to_it(
    epochs: tuple[int, ...], code: str, blamed: tuple[int, ...]
) -> None:
    """The one in backward may have left out what the other gathers, and be in its next epoch."""
    outer = tuple(Loop(line=line, head="for epoch in range(3)") for line in epochs)
    inner = Loop(line=55, head="for images, labels in loader")
    places = (
        CodePlace(file=SCRIPT, line=61, function="train_step", loops=(*outer, inner)),
        CodePlace(file=SCRIPT, line=95, function="train_step", loops=outer),
        CodePlace(file=SCRIPT, line=90, function="<module>"),
    )
    gathers = stack((C10D, 3300, "all_gather_object"), user=(95, "train_step"))
    first, *_ = diagnose(hang(rank(gathers), rank(), facts=(SourceCode(places=places),))).findings
    assert (first.code, first.ranks) == (code, blamed)


@pytest.mark.parametrize(
    ("waits_in", "roots", "said"),
    [
        ("all_gather", (), {"DDP306": (1,)}),
        ("gather", (), {}),
        ("gather", (0, 0), {"DDP306": (1,)}),
        ("gather", (0, 2), {"DDP304": (0, 2)}),
        ("broadcast", (0,), {}),
    ],
)
def test_a_rank_past_a_gather_has_left_no_loop_unless_the_others_wait_for_one_root(
    waits_in: str, roots: tuple[int, ...], said: dict[str, tuple[int, ...]]
) -> None:
    """One that sends to the root comes out of the call while others may still wait there, each for a root of its own."""
    at = Frame(file=SCRIPT, line=61, function="train_step")
    places = (
        CodePlace(file=SCRIPT, line=61, function="train_step", loops=(Loop(line=55, head="for images in loader"),)),
        CodePlace(file=SCRIPT, line=95, function="train_step"),
        CodePlace(file=SCRIPT, line=90, function="<module>"),
    )
    waits = rank(stack((C10D, 4300, waits_in)))
    past = rank(stack((C10D, 5000, "barrier"), user=(95, "train_step")))
    given = [(GivenRoot(op=waits_in, root=root, place=at),) for root in roots] + [()] * (2 - len(roots))
    evidence = hang((*waits, *given[0]), past, (*waits, *given[1]), facts=(SourceCode(places=places),), seconds=None)
    found = {finding.code: finding.ranks for finding in diagnose(evidence).findings}
    assert found == said


@pytest.mark.parametrize(
    ("waits_in", "ranks_in_backward", "code"),
    [("all_gather", 2, "DDP306"), ("gather", 2, None), ("recv", 2, None), ("recv", 1, None)],
)
def test_a_majority_that_may_have_come_through_a_call_accuses_nobody(
    waits_in: str, ranks_in_backward: int, code: str | None
) -> None:
    """Only the destination of a gather waits for all others, and only a receive for one."""
    inner = Loop(line=55, head="for images, labels in loader")
    places = (
        CodePlace(file=SCRIPT, line=61, function="train_step", loops=(inner,)),
        CodePlace(file=SCRIPT, line=95, function="train_step"),
        CodePlace(file=SCRIPT, line=90, function="<module>"),
    )
    one = rank(stack((C10D, 3300, waits_in), user=(95, "train_step")))
    report = diagnose(hang(one, *[rank()] * ranks_in_backward, facts=(SourceCode(places=places),)))
    assert next((finding.code for finding in report.findings), None) == code


@pytest.mark.parametrize(
    ("turns", "word", "outer", "code"),
    [
        ((39, 39, 39), "continue", False, "DDP316"),
        ((39, 38, 38), "continue", False, "DDP316"),  # a call less in one turn, and the others have a turn to go
        ((37, 39, 39), "continue", False, "DDP306"),  # it had fewer batches
        ((39, 39, 39), "break", False, "DDP306"),  # it may have left in this turn
        ((39, 2, 2), "continue", True, "DDP306"),  # the others may be in their next epoch
        (None, "continue", False, "DDP306"),
    ],
)
def test_a_rank_that_made_as_many_turns_as_its_peers_passed_over_a_call(
    turns: tuple[int, ...] | None, word: Literal["break", "continue"], outer: bool, code: str
) -> None:
    jump = Jump(line=58, word=word, test="not images.isfinite().all()")
    skips = (58,) if word == "continue" else ()
    inner = Loop(line=55, head="for step, images in batches()", counter="step", skips=skips, jumps=(jump,))
    epochs = (Loop(line=50, head="for epoch in range(3)"),) if outer else ()
    places = (
        CodePlace(file=SCRIPT, line=61, function="train_step", loops=(*epochs, inner)),
        CodePlace(file=SCRIPT, line=95, function="train_step", loops=epochs),
        CodePlace(file=SCRIPT, line=90, function="<module>"),
    )
    one = rank(stack((C10D, 3300, "barrier"), user=(95, "train_step")))
    facts = [(LoopTurn(loop=55, turn=turn),) for turn in turns] if turns is not None else [()] * 3
    ranks = [(*said, *fact) for said, fact in zip((one, rank(), rank()), facts, strict=True)]
    (found,) = diagnose(hang(*ranks, facts=(SourceCode(places=places),), seconds=None)).findings
    assert (found.code, found.ranks) == (code, (0,))
    if code == "DDP316":
        assert (found.where[0].line, found.where[0].note) == (58, "`continue` if `not images.isfinite().all()`")


@pytest.mark.parametrize(
    ("turns", "word", "code"),
    [
        (((2, 7), (1, 3), (1, 3)), "break", "DDP306"),  # it left the inner loop in every epoch
        (((2, 11), (1, 3), (1, 3)), "continue", "DDP306"),  # it has fewer batches, or passed over some
        (((2, 14), (2, 14), (2, 14)), "continue", "DDP316"),
        (((2, 13), (2, 12), (2, 12)), "continue", "DDP306"),
        (((2, None), (2, None), (2, None)), "continue", "DDP306"),
    ],
)
def test_a_turn_of_an_outer_loop_may_have_fewer_calls_on_one_rank(
    turns: tuple[tuple[int, int | None], ...], word: Literal["break", "continue"], code: str
) -> None:
    jump = Jump(line=58, word=word, test="loss < limit")
    inner = Loop(line=55, head="for step, images in enumerate(loader)", counter="step", jumps=(jump,))
    epochs = Loop(line=50, head="for epoch in range(3)", counter="epoch")
    places = (
        CodePlace(file=SCRIPT, line=61, function="train_step", loops=(epochs, inner)),
        CodePlace(file=SCRIPT, line=95, function="train_step"),
        CodePlace(file=SCRIPT, line=90, function="<module>"),
    )
    one = rank(stack((C10D, 3300, "barrier"), user=(95, "train_step")))
    facts = [LoopTurn(loop=50, turn=turn, inner=of_it) for turn, of_it in turns]
    ranks = [(*said, fact) for said, fact in zip((one, rank(), rank()), facts, strict=True)]
    (found,) = diagnose(hang(*ranks, facts=(SourceCode(places=places),), seconds=None)).findings
    assert (found.code, found.ranks) == (code, (0,))


@pytest.mark.parametrize(("turns", "blamed"), [((7, 7, 7), (1,)), ((7, 8, 7), None)])
def test_a_condition_in_a_function_tells_which_ranks_in_one_turn_left_its_call_out(
    tmp_path: Path, turns: tuple[int, ...], blamed: tuple[int, ...] | None
) -> None:
    """In another turn the rank in backward may have made the call in the one before."""
    path = tmp_path / "train.py"
    path.write_text(
        "def forward(x):\n    if len(x):\n        dist.all_reduce(load)\n"
        "def main():\n    for step in range(40):\n        out = forward(x)\n        out.backward()\n"
    )
    inside, outside, backward = (
        Frame(file=str(path), line=line, function=name) for line, name in ((3, "forward"), (6, "main"), (7, "main"))
    )
    reduces = Frame(file=C10D, line=3000, function="all_reduce")
    frames = [(reduces, inside, outside), (*IN_BACKWARD[:3], backward), (reduces, inside, outside)]
    ranks = []
    for stands, turn in zip(map(rank, frames), turns, strict=True):
        ranks.append((replace(stands[0], turns=(CountedLoop(frame=0, loop=5, turn=turn),)), *stands[1:]))
    code = source_of([frame for stands in frames for frame in stands])
    assert code is not None
    found = [one for one in diagnose(hang(*ranks, facts=(code,), seconds=None)).findings if one.code == "DDP305"]
    assert (found[0].ranks if found else None) == blamed


@pytest.mark.parametrize(
    ("head", "turns", "code"),
    [
        ("    if True:\n", None, "DDP306"),
        ("    for epoch in range(3):\n", (1, 1, 1), "DDP306"),
        ("    for epoch in range(3):\n", (1, 2, 1), "DDP301"),  # it may be in front of that loop
        ("    while running:\n", None, "DDP301"),
    ],
)
def test_a_rank_past_a_function_left_the_loop_in_it(
    tmp_path: Path, head: str, turns: tuple[int, ...] | None, code: str | None
) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "def iterate(a):\n    while delta > tol:\n        dist.all_reduce(w)\n"
        f"def main():\n{head}        iterate(a)\n        dist.all_gather(out, v)\n"
    )
    c10d = C10D
    inside = tuple(
        Frame(file=file, line=line, function=name)
        for file, line, name in ((c10d, 3000, "all_reduce"), (str(path), 3, "iterate"), (str(path), 6, "main"))
    )
    past = Frame(file=c10d, line=3300, function="all_gather"), Frame(file=str(path), line=7, function="main")
    stacks = [rank(stands) for stands in (inside, past, inside)]
    ranks = [
        (replace(stands, turns=(CountedLoop(frame=0, loop=5, turn=turn),) if turn is not None else ()), *state)
        for (stands, *state), turn in zip(stacks, turns or (None,) * 3, strict=True)
    ]
    source = source_of([*inside, *past])
    assert source is not None
    found = diagnose(hang(*ranks, facts=(source,), seconds=None)).findings
    assert [(one.code, one.ranks) for one in found] == ([(code, (1,))] if code else [])


UNDER_THE_RANK = SourceCode(
    places=(
        CodePlace(
            file=SCRIPT, line=85, function="train_step", conditions=(Condition(line=85, test="rank == 0", branch=0),)
        ),
        CodePlace(file=SCRIPT, line=61, function="train_step"),
        CodePlace(file=SCRIPT, line=90, function="<module>"),
    )
)
LIGHTNING = "/venv/lib/python3.11/site-packages/lightning"
IN_FIT = (SCRIPT, 68, "main")


def in_fit(*frames: tuple[str, int, str]) -> tuple[Frame, ...]:
    """A rank in a collective of a framework, below the user's line that started the training."""
    file, line, function = IN_FIT
    above = (Frame(file=path, line=at, function=name) for path, at, name in frames)
    return (*above, Frame(file=file, line=line, function=function))


LOGS = in_fit((C10D, 3252, "all_reduce"), (f"{LIGHTNING}/pytorch/loops/evaluation_loop.py", 381, "on_run_end"))
GOES_ON = in_fit((C10D, 5356, "barrier"), (f"{LIGHTNING}/pytorch/loops/fit_loop.py", 266, "setup_data"))


def asked(value: str) -> SourceCode:
    """A `self.log` whose `sync_dist=` is this value."""
    condition = Condition(line=36, test=f"sync_dist={value}", branch=0)
    text = f"self.log('val_loss', loss, sync_dist={value})"
    request = Request(
        file=SCRIPT, line=36, function="validation_step", text=text, wants="call", conditions=(condition,)
    )
    return SourceCode(places=(CodePlace(file=SCRIPT, line=68, function="main"),), requests=(request,))


@pytest.mark.parametrize("value", ["self.trainer.is_global_zero", "self.global_rank == 0"])
def test_of_two_calls_of_a_framework_the_one_that_a_rank_asked_for_is_the_one_too_many(value: str) -> None:
    """`sync_dist=trainer.is_global_zero`, asked from outside: the two ranks stand at one line of the user's."""
    first, *_ = diagnose(hang(rank(LOGS), rank(GOES_ON), facts=(asked(value),))).findings
    assert (first.code, first.ranks) == ("DDP305", (0,))
    assert (first.where[0].line, first.where[0].rank) == (36, 0)


def test_a_request_of_another_rank_tells_nothing() -> None:
    assert not diagnose(hang(rank(LOGS), rank(GOES_ON), facts=(asked("self.global_rank == 5"),))).findings


def test_a_rank_that_waits_for_a_dtensor_is_in_a_collective() -> None:
    """`if rank == 0: clip_grad_norm_(...)` with FSDP2: the call has no frame of torch's `all_reduce`."""
    clips = stack(
        (f"{TORCH}/_ops.py", 1279, "__call__"),
        (f"{TORCH}/distributed/_functional_collectives.py", 142, "wait_tensor"),
        (f"{TORCH}/nn/utils/clip_grad.py", 35, "_no_grad_wrapper"),
        user=(85, "train_step"),
    )
    first, *_ = diagnose(hang(rank(clips, system_call="futex"), rank(), rank(), facts=(UNDER_THE_RANK,))).findings
    assert (first.code, first.ranks) == ("DDP305", (0,))
    assert first.message == "rank 0 waits in wait_tensor while ranks 1-2 wait in backward"

"""Ranks in different collectives are told apart by their stacks alone only where nothing moves and the source tells."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.source import CodePlace, Condition, Loop, SourceCode
from tests.checks.ddp305_collective_called_by_some import IN_BROADCAST, IN_FORWARD, SEEN
from tests.hangs import IN_BACKWARD, SCRIPT, TORCH, hang, rank, stack

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
    gathers = stack((f"{TORCH}/distributed/distributed_c10d.py", 3300, "all_gather_object"), user=(95, "train_step"))
    first, *_ = diagnose(hang(rank(gathers), rank(), facts=(SourceCode(places=places),))).findings
    assert (first.code, first.ranks) == (code, blamed)


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
    one = rank(stack((f"{TORCH}/distributed/distributed_c10d.py", 3300, waits_in), user=(95, "train_step")))
    report = diagnose(hang(one, *[rank()] * ranks_in_backward, facts=(SourceCode(places=places),)))
    assert next((finding.code for finding in report.findings), None) == code

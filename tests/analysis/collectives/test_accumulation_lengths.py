"""Ranks that accumulate over other numbers of forwards are in step where each step is reduced once, with the last of them."""

from dataclasses import replace

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, StepMark
from tests.flight_records import TRAIN

PLACE = Frame(file=TRAIN, line=61, function="train_step")


def accumulated(*lengths: int, early: bool = False, drawn: bool = False) -> CollectiveCalls:
    """A rank that made so many forwards for each step, one reduction with the last of them, or with `early` the first."""
    forwards: list[Forward] = []
    marks: list[StepMark] = []
    for step, length in enumerate(lengths):
        for number in range(length):
            reduces = number == (0 if early else length - 1)
            forwards.append(Forward(number=len(forwards) + 1, place=PLACE, steps=step, reduces=reduces))
            done = sum(bool(one.reduces) for one in forwards[:-1])
            marks.append(StepMark(iteration=len(forwards), seq=done, in_pass=len(forwards) if drawn else None))
    return CollectiveCalls(steps=tuple(marks), forwards=tuple(forwards))


def job(*ranks: CollectiveCalls) -> Evidence:
    facts = (RankFacts(rank=rank, host="a", facts=(calls,)) for rank, calls in enumerate(ranks))
    return Evidence(ranks=tuple(facts), about_job=True)


FOURS = accumulated(4, 4, 4, 4, 4)


def test_larger_micro_batches_on_one_rank_are_shown_as_information() -> None:
    (found,) = diagnose(job(FOURS, accumulated(2, 2, 2, 2, 2), FOURS)).findings
    assert (found.code, found.ranks, found.severity.value) == ("DDP316", (1,), "info")
    assert "2 on rank 1 and 4 on ranks 0,2" in found.message


@pytest.mark.parametrize(
    "other",
    [
        accumulated(4, 4, 3, 4, 4),
        accumulated(2, 2, 2, 2, 2, early=True),
        accumulated(2, 2, 2, 2, 2, drawn=True),
        replace(accumulated(2, 2, 2, 2, 2), forwards=tuple(Forward(number=n, place=PLACE) for n in range(1, 11))),
    ],
    ids=["one step of fewer", "reduced before its last forward", "batches of a data loader", "not recorded"],
)
def test_other_ranks_are_out_of_step(other: CollectiveCalls) -> None:
    assert diagnose(job(FOURS, other, FOURS)).findings[0].severity.value == "fail"

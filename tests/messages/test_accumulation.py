"""The lines that decide which gradients are reduced, with what there depends on the rank."""

from __future__ import annotations

from ddpdoctor.evidence.source import CodePlace, RankValue, Request, SourceCode
from ddpdoctor.messages.accumulation import decides_the_reduction

BRAIN = "/job/brain.py"
DECIDES = Request(file=BRAIN, line=51, function="fit_batch", text="self.no_sync(not should_step)", wants="accumulate")


def lines(*values: RankValue, function: str = "fit_batch") -> list[tuple[int, str]]:
    place = CodePlace(file=BRAIN, line=52, function=function, rank_values=values)
    return [
        (where.line, where.note) for where in decides_the_reduction(SourceCode(places=(place,), requests=(DECIDES,)))
    ]


def test_a_value_of_the_rank_above_the_line_is_shown_with_it() -> None:
    value = RankValue(line=50, text="step % (2 + (rank == 2))")

    assert lines(value) == [
        (50, "`step % (2 + (rank == 2))` depends on the rank"),
        (51, "decides which gradients are reduced"),
    ]


def test_other_values_are_not() -> None:
    below, plain = RankValue(line=60, text="2 + (rank == 2)"), RankValue(line=40, text="seed + rank", compares=False)

    assert lines(below, plain) == [(51, "decides which gradients are reduced")]
    assert len(lines(RankValue(line=50, text="2 + (rank == 2)"), function="evaluate")) == 1
    assert decides_the_reduction(None) == []

"""Ranks that wait for their batches longer than they compute, and the line that makes the batches."""

from __future__ import annotations

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.evidence import Evidence, RankFacts
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.step_times import Looks, Pace

FORWARD = Frame(file="train.py", line=30, function="train")
COLLATE = Frame(file="data.py", line=8, function="collate")
BATCH_NS, STEP_NS, BATCHES = 300_000_000, 400_000_000, 25


def waiting(*looks: Looks) -> RankFacts:
    asked = [STEP_NS * number for number in range(BATCHES)]
    drawn = tuple(start + BATCH_NS for start in asked)
    pace = Pace(asked_ns=tuple(asked), drawn_ns=drawn, forward_ns=drawn, forward=FORWARD)
    return RankFacts(rank=0, host="node1", facts=(pace, *looks))


@pytest.mark.parametrize(
    ("looks", "line"),
    [
        ((), FORWARD),
        ((Looks(of=10, places=(COLLATE,), times=(7,)),), COLLATE),
        ((Looks(of=10, places=(COLLATE,), times=(1,)),), FORWARD),
    ],
    ids=["not looked at", "seen often", "seen once"],
)
def test_the_line_is_the_one_that_samples_found_most_often(looks: tuple[Looks, ...], line: Frame) -> None:
    (finding,) = diagnose(Evidence(ranks=(waiting(*looks),), about_job=True), select=("DDP602",)).findings
    (where,) = finding.where
    assert (where.file, where.line) == (line.file, line.line)

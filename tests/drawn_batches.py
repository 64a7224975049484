"""What a rank recorded that drew batches of a data loader and trained with them."""

from __future__ import annotations

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import CollectiveCalls, Forward, StepMark
from tests.flight_records import TRAIN


def drew(*in_pass: int, of: int | None, seq: int = 1, lacks: int | None = None) -> CollectiveCalls:
    """A rank that drew these batches of its passes, and made a forward and one sum of gradients with each but batch `lacks`."""
    marks, made = [], 0
    for number, place in enumerate(in_pass, 1):
        marks.append(StepMark(iteration=number, seq=seq + made, in_pass=place, of=of, forwards=made))
        made += number != lacks
    stack = (Frame(file=TRAIN, line=43, function="run_batch"), Frame(file=TRAIN, line=61, function="train_step"))
    forwards = tuple(Forward(number=number, place=stack[0], stack=stack) for number in range(1, made + 1))
    return CollectiveCalls(steps=tuple(marks), forwards=forwards)

"""A rank that skipped a batch, so that its gradients meet those of another step; ranks in step."""

from ddpdoctor.evidence.ranks import CollectiveCalls, StepMark
from ddpdoctor.evidence.source import CodePlace, Loop
from tests.checks import Sick, ranks
from tests.flights import STEP, TRAIN, Did, flights, waits

LOOP = Loop(line=55, last_line=90, head="for images, labels in loader")
CODE = (
    CodePlace(file=TRAIN, line=61, function="train_step", loops=(LOOP,)),
    CodePlace(file=TRAIN, line=95, function="train_step"),
)


def marks(*counts: int) -> CollectiveCalls:
    return CollectiveCalls(steps=tuple(StepMark(iteration=number, seq=count) for number, count in enumerate(counts)))


SICK = (
    Sick(
        evidence=ranks(marks(0, 2, 4, 6), marks(0, 2, 2, 4), marks(0, 2, 4, 6)),
        says="iteration 2 did not begin after equally many collectives: rank 1 after 2 and ranks 0,2 after 4",
        ranks=(1,),
    ),
    Sick(  # it accumulates over fewer batches, and is a call behind in the end
        evidence=flights(
            [*[STEP] * 5, waits(Did("barrier", line=95))],
            [*[STEP] * 5, waits(STEP)],
            [*[STEP] * 5, waits(Did("barrier", line=95))],
            code=CODE,
            facts={0: (marks(0, 1, 1, 2),), 1: (marks(0, 1, 2, 3),), 2: (marks(0, 1, 1, 2),)},
        ),
        says="iteration 2 did not begin after equally many collectives: rank 1 after 2 and ranks 0,2 after 1",
        ranks=(1,),
    ),
)
HEALTHY = (ranks(marks(0, 2, 4), marks(0, 2, 4, 6)),)

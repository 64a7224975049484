"""A rank that skipped a batch, so that its gradients meet those of another step; ranks in step."""

from ddpdoctor.evidence.ranks import CollectiveCalls, StepMark
from tests.checks import Sick, ranks


def marks(*counts: int) -> CollectiveCalls:
    return CollectiveCalls(steps=tuple(StepMark(iteration=number, seq=count) for number, count in enumerate(counts)))


SICK = (
    Sick(
        evidence=ranks(marks(0, 2, 4, 6), marks(0, 2, 2, 4), marks(0, 2, 4, 6)),
        says="iteration 2 did not begin after equally many collectives: rank 1 after 2 and ranks 0,2 after 4",
        ranks=(1,),
    ),
)
HEALTHY = (ranks(marks(0, 2, 4), marks(0, 2, 4, 6)),)

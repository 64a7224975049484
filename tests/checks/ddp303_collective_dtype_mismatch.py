"""A dtype that differs: one that hangs, one that nobody noticed."""

from tests.checks import Sick
from tests.flights import STEP, Did, flights, waits

INTS = Did("all_reduce", dtype="Int")

SICK = (
    Sick(
        evidence=flights([STEP, STEP], [STEP, STEP], [INTS, STEP], [STEP, STEP]),
        says="rank 2 gave all_reduce #1 a tensor of Int, ranks 0-1,3 Float, and nothing complained",
        ranks=(2,),
    ),
    Sick(
        evidence=flights([waits(STEP)], [waits(INTS)]),
        says="rank 0 gave all_reduce #1 a tensor of Float, rank 1 Int",
        ranks=(0, 1),
    ),
)
HEALTHY = (flights([INTS, STEP], [INTS, STEP]),)

"""Two groups used in opposite orders, by waiting ranks and by ranks that queue calls on a device; one order for all."""

from tests.checks import Sick
from tests.flights import STEP, Did, flights, waits

A = Did("all_reduce", line=70, group="1")
B = Did("all_reduce", line=71, group="2")

SICK = (
    Sick(
        evidence=flights([STEP, waits(A)], [STEP, waits(A)], [STEP, waits(B)], backend="gloo"),
        says="ranks wait for each other in different groups: rank 2 waits in all_reduce #1 of group 2, "
        "ranks 0-1 wait in all_reduce #1 of group 1",
        ranks=(2,),
    ),
    Sick(
        evidence=flights([STEP, waits(A), waits(B)], [STEP, waits(B), waits(A)]),
        says="ranks wait for each other in different groups: rank 0 waits in all_reduce #1 of group 1, "
        "rank 1 waits in all_reduce #1 of group 2; of the orders none can be told right",
        ranks=(0, 1),
    ),
)
HEALTHY = (flights([STEP, A, B], [STEP, A, B]),)

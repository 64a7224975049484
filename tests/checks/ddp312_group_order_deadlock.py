"""Two groups used in opposite orders, by waiting ranks and by ranks that queue calls on a device; one order for all."""

from tests.checks import Sick, at
from tests.flight_records import STEP, Did, flights, waits

A = Did("all_reduce", line=70, group="1")
B = Did("all_reduce", line=71, group="2")

SICK = (
    Sick(
        evidence=flights([STEP, waits(A)], [STEP, waits(A)], [STEP, waits(B)], backend="gloo"),
        says="ranks wait for each other in different groups: rank 2 waits in all_reduce #1 of group 2, "
        "ranks 0-1 wait in all_reduce #1 of group 1",
        ranks=(2,),
        where=("rank 2 /home/me/job/train.py:71 train_step", *at("/home/me/job/train.py:70 train_step", 0, 1)),
        measured={
            "waits": {"2": "all_reduce #1 of group 2", "0": "all_reduce #1 of group 1", "1": "all_reduce #1 of group 1"}
        },
    ),
    Sick(
        evidence=flights([STEP, waits(A), waits(B)], [STEP, waits(B), waits(A)]),
        says="ranks wait for each other in different groups: rank 0 waits in all_reduce #1 of group 1, "
        "rank 1 waits in all_reduce #1 of group 2; no majority: either side may be at fault",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:70 train_step", "rank 1 /home/me/job/train.py:71 train_step"),
        measured={"waits": {"0": "all_reduce #1 of group 1", "1": "all_reduce #1 of group 2"}},
    ),
    Sick(
        evidence=flights([STEP, A, B, A, B, waits(A)], [STEP, A, B, A, B, waits(B)]),
        says="ranks wait for each other in different groups: rank 1 waits in all_reduce #3 of group 2, "
        "rank 0 waits in all_reduce #3 of group 1",
        ranks=(1,),
        where=("rank 1 /home/me/job/train.py:71 train_step", "rank 0 /home/me/job/train.py:70 train_step"),
        measured={"waits": {"1": "all_reduce #3 of group 2", "0": "all_reduce #3 of group 1"}},
    ),
)
HEALTHY = (flights([STEP, A, B], [STEP, A, B]),)

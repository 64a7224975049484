"""A dtype that differs: one that hangs, one that nobody noticed."""

from tests.checks import Sick, at
from tests.flight_records import STEP, Did, flights, waits

INTS = Did("all_reduce", dtype="Int")

SICK = (
    Sick(
        evidence=flights([STEP, STEP], [STEP, STEP], [INTS, STEP], [STEP, STEP]),
        says="rank 2 gave all_reduce #1 a tensor of Int, ranks 0-1,3 Float, without an error",
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 2, 0, 1, 3),
        measured={
            "seq": 1,
            "group": "default",
            "dtypes": {"0": "Float", "1": "Float", "2": "Int", "3": "Float"},
            "more": 0,
        },
    ),
    Sick(
        evidence=flights([waits(STEP)], [waits(INTS)]),
        says="rank 0 gave all_reduce #1 a tensor of Float, rank 1 Int",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 1 /home/me/job/train.py:61 train_step"),
        measured={"seq": 1, "group": "default", "dtypes": {"0": "Float", "1": "Int"}, "more": 0},
    ),
)
HEALTHY = (flights([INTS, STEP], [INTS, STEP]),)

"""A rank that went on enqueuing and completed nothing, beside a peer that completed the same calls; a root that is ahead."""

from tests.checks import Sick
from tests.flight_records import STEP, Did, flights, record, waits

PAIR = Did("all_reduce", group="1", members=(0, 1))
FROM_ROOT = Did("broadcast", group="1", members=(0, 1))

SICK = (
    Sick(
        evidence=flights(
            [STEP, waits(PAIR), waits(PAIR), waits(PAIR)], [STEP, PAIR, PAIR, waits(STEP)], [STEP, waits(STEP)]
        ),
        says="rank 0 enqueued all_reduce #1 of group 1 and did not complete it, while rank 1 completed #2: its device stopped, "
        "or its watchdog thread did",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:61 train_step",),
        measured={
            "not_completed": {"0": 1},
            "completed": {"0": 0},
            "peers_completed": {"0": 2},
            "waiting": [0, 1, 2],
        },
    ),
)
HEALTHY = (
    flights(record([STEP, waits(PAIR)], world=2, waited=0.3), record([STEP, PAIR], world=2, waited=0.3)),
    flights(
        record([STEP, waits(FROM_ROOT)], world=2, waited=0.3), record([STEP, FROM_ROOT, FROM_ROOT], world=2, waited=0.3)
    ),
)

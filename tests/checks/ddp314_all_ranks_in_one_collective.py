"""All ranks in one old call; all ranks in one young call, which is how a healthy job looks at any moment."""

from dataclasses import replace

from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import State
from tests.checks import Sick
from tests.flight_records import STEP, flights, record, waits

BEGUN = record([STEP, waits(STEP)])

SICK = (
    Sick(
        evidence=flights(*[[STEP, waits(STEP)]] * 4),
        says="all 4 ranks (0-3) are in all_reduce #2 for 6.2 s, nobody is missing, and it does not end",
        where=(
            "rank 0 /home/me/job/train.py:61 train_step",
            "rank 1 /home/me/job/train.py:61 train_step",
            "rank 2 /home/me/job/train.py:61 train_step",
            "rank 3 /home/me/job/train.py:61 train_step",
        ),
        measured={"seq": 2, "seconds": 6.2, "backend": "nccl", "members": [0, 1, 2, 3]},
    ),
    Sick(
        evidence=flights(BEGUN, BEGUN, replace(BEGUN, state=(State.DONE, State.SCHEDULED)), BEGUN),
        says="all 4 ranks (0-3) are in all_reduce #2 for 6.2 s, nobody is missing, and it does not end; the device of every "
        "other rank has begun it, that of rank 2 has not",
        ranks=(2,),
        where=(
            "rank 2 /home/me/job/train.py:61 train_step",
            "rank 0 /home/me/job/train.py:61 train_step",
            "rank 1 /home/me/job/train.py:61 train_step",
            "rank 3 /home/me/job/train.py:61 train_step",
        ),
        measured={"seq": 2, "seconds": 6.2, "backend": "nccl", "members": [0, 1, 2, 3]},
    ),
)
HEALTHY = (
    flights(*[record([STEP, waits(STEP)], world=2, waited=0.3)] * 2),
    # both ended well, before their recorders had noted the end of the last call
    flights(*[[STEP, waits(STEP)]] * 2, facts={rank: (RankExit(exit_code=0),) for rank in range(2)}),
)

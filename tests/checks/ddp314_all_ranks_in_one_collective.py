"""All ranks in one old call; all ranks in one young call, which is how a healthy job looks at any moment."""

from dataclasses import replace

from ddpdoctor.evidence.ranks import RankExit
from ddpdoctor.evidence.recorder import FlightRecord, State
from tests.checks import Sick, at
from tests.flight_records import STEP, Did, flights, record, waits

ONE, OTHER = (Did("all_reduce", group=name, members=members) for name, members in (("1", (0, 1)), ("2", (2, 3))))


def in_a_ring(rank: int, *peers: tuple[int, int]) -> FlightRecord:
    """The rank's first batch, of sends and receives between these, is not through."""
    halves = [waits(Did("send" if source == rank else "recv", peers=(source, target))) for source, target in peers]
    made = record([STEP, *halves])
    return replace(made, seq=(1, *(1 for _ in halves)))


BEGUN = record([STEP, waits(STEP)])
ONE_OF_THREE, OTHER_OF_THREE = (
    Did("all_reduce", group=name, members=members) for name, members in (("1", (0, 1, 2)), ("2", (3, 4, 5)))
)
BEGUN_ONE, BEGUN_OTHER = (record([STEP, waits(one)], world=6) for one in (ONE_OF_THREE, OTHER_OF_THREE))
QUEUED_ONE, QUEUED_OTHER = (replace(one, state=(State.DONE, State.SCHEDULED)) for one in (BEGUN_ONE, BEGUN_OTHER))

SICK = (
    Sick(
        evidence=flights(*[[STEP, waits(STEP)]] * 4),
        says="all 4 ranks (0-3) are in all_reduce #2 for 6.2 s, nobody is missing, and it does not end",
        where=at("/home/me/job/train.py:61 train_step", 0, 1, 2, 3),
        measured={"seq": 2, "seconds": 6.2, "backend": "nccl", "members": [0, 1, 2, 3]},
    ),
    Sick(
        evidence=flights(BEGUN, BEGUN, replace(BEGUN, state=(State.DONE, State.SCHEDULED)), BEGUN),
        says="all 4 ranks (0-3) are in all_reduce #2 for 6.2 s, nobody is missing, and it does not end; the device of every "
        "other rank has begun it, that of rank 2 has not",
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 2, 0, 1, 3),
        measured={"seq": 2, "seconds": 6.2, "backend": "nccl", "members": [0, 1, 2, 3]},
    ),
    # two groups at once, neither of which waits for the other
    Sick(
        evidence=flights(*[[STEP, waits(ONE)]] * 2, *[[STEP, waits(OTHER)]] * 2),
        says="all 2 ranks (0-1) are in all_reduce #1 of group 1 for 6.2 s and all 2 ranks (2-3) are in all_reduce #1 of group 2 "
        "for 6.2 s, nobody is missing, and they do not end",
        where=at("/home/me/job/train.py:61 train_step", 0, 1, 2, 3),
        measured={"seq": 1, "seconds": 6.2, "backend": "nccl", "members": [0, 1, 2, 3]},
    ),
    # a device that stopped in one group tells nothing of the other group
    Sick(
        evidence=flights(BEGUN_ONE, BEGUN_ONE, QUEUED_ONE, *[[STEP, waits(OTHER_OF_THREE)]] * 3),
        says="all 3 ranks (0-2) are in all_reduce #1 of group 1 for 6.2 s and all 3 ranks (3-5) are in all_reduce #1 of group 2 "
        "for 6.2 s, nobody is missing, and they do not end",
        where=tuple(f"rank {rank} /home/me/job/train.py:61 train_step" for rank in range(6)),
        measured={"seq": 1, "seconds": 6.2, "backend": "nccl", "members": [*range(6)]},
    ),
    # a device that stopped in each group
    Sick(
        evidence=flights(BEGUN_ONE, BEGUN_ONE, QUEUED_ONE, QUEUED_OTHER, BEGUN_OTHER, BEGUN_OTHER),
        says="all 3 ranks (0-2) are in all_reduce #1 of group 1 for 6.2 s and all 3 ranks (3-5) are in all_reduce #1 of group 2 "
        "for 6.2 s, nobody is missing, and they do not end; the devices of ranks 2-3 have not begun, "
        "those of all other ranks have",
        ranks=(2, 3),
        where=tuple(f"rank {rank} /home/me/job/train.py:61 train_step" for rank in (2, 3, 0, 1, 4, 5)),
        measured={"seq": 1, "seconds": 6.2, "backend": "nccl", "members": [*range(6)]},
    ),
    # a ring whose other ranks are through: rank 1 has a part in both transfers that are not
    Sick(
        evidence=flights(
            in_a_ring(0, (0, 1)),
            in_a_ring(1, (0, 1), (1, 2)),
            in_a_ring(2, (1, 2)),
            [STEP, Did("all_reduce", group="3")],
        ),
        says="all 2 ranks (0-1) are in the send from rank 0 to rank 1 for 6.2 s and all 2 ranks (1-2) are in the send from "
        "rank 1 to rank 2 for 6.2 s, nobody is missing, and they do not end; rank 1 takes part in each of these",
        ranks=(1,),
        where=at("/home/me/job/train.py:61 train_step", 1, 0, 2),
        measured={"seq": 1, "seconds": 6.2, "backend": None, "members": [0, 1, 2]},
    ),
    # the same where ring buffers have lost earlier turns: rank 1 may wait for another send than the one that rank 0 is in
    Sick(
        evidence=flights(
            *(
                replace(one, lost=9)
                for one in (in_a_ring(0, (0, 1)), in_a_ring(1, (0, 1), (1, 2)), in_a_ring(2, (1, 2)))
            ),
            [STEP, Did("all_reduce", group="3")],
        ),
        says="all 2 ranks (0-1) are in the send from rank 0 to rank 1 for 6.2 s and all 2 ranks (1-2) are in the send from "
        "rank 1 to rank 2 for 6.2 s, nobody is missing, and they do not end",
        where=tuple(f"rank {rank} /home/me/job/train.py:61 train_step" for rank in range(3)),
        measured={"seq": 1, "seconds": 6.2, "backend": None, "members": [0, 1, 2]},
    ),
)
HEALTHY = (
    flights(*[record([STEP, waits(STEP)], world=2, waited=0.3)] * 2),
    # both ended well, before their recorders had noted the end of the last call
    flights(*[[STEP, waits(STEP)]] * 2, facts={rank: (RankExit(exit_code=0),) for rank in range(2)}),
)

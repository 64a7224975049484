"""A rank that went on enqueuing and completed nothing, beside a peer that completed the same calls; a root that is ahead."""

from dataclasses import replace

from ddpdoctor.evidence.recorder import FlightRecord
from tests.checks import Sick
from tests.flight_records import STEP, Did, flights, record, waits

PAIR = Did("all_reduce", group="1", members=(0, 1))
SENT, RECEIVED = Did("send", peers=(0, 1)), Did("recv", peers=(0, 1))
FROM_ROOT = Did("broadcast", group="1", members=(0, 1))
OF_THREE = Did("all_reduce", group="1", members=(0, 1, 2))


def lost(completed: int, call: Did = PAIR) -> FlightRecord:
    """A ring buffer that holds calls 8 and 9 of a group, of which neither is through, and a table that tells how many are."""
    held = record([waits(call), waits(call)], world=len(call.members), first=8, lost=14)
    return replace(held, groups=(replace(held.groups[0], last_enqueued=9, last_completed=completed),))


def of_one_count(transfer: tuple[int, int], numbers: tuple[int, ...]) -> FlightRecord:
    """A ring buffer of an older dump that has lost calls: the numbers of the pair's collectives count sends and receives, too."""
    sent = Did("send", group="1", members=(0, 1), peers=transfer)
    return replace(record([sent, PAIR, waits(PAIR)], world=2, lost=50), version="2.1", seq=numbers)


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
    Sick(
        evidence=flights(lost(2, OF_THREE), lost(5, OF_THREE), lost(5, OF_THREE)),
        says="rank 0 enqueued all_reduce #8 of group 1 and completed none after #2, while ranks 1-2 completed #5: its device "
        "stopped, or its watchdog thread did",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:61 train_step",),
        measured={
            "not_completed": {"0": 3},
            "completed": {"0": 2},
            "peers_completed": {"0": 5},
            "waiting": [0],
        },
    ),
    # what rank 1 has received has left rank 0
    Sick(
        evidence=flights([STEP, waits(SENT), waits(STEP)], [STEP, RECEIVED, waits(STEP)]),
        says="rank 0 enqueued the send from rank 0 to rank 1 and did not complete it, while rank 1 did: its device stopped, or "
        "its watchdog thread did",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:61 train_step",),
        measured={
            "not_completed": {"0": 1},
            "completed": {"0": 0},
            "peers_completed": {"0": 1},
            "waiting": [0],
        },
    ),
)
HEALTHY = (
    flights(lost(completed=5), lost(completed=5)),
    # one of two may have called something else by the number that both have lost, and is through with no other behind it
    flights(lost(completed=2), lost(completed=3)),
    flights(of_one_count((0, 1), (9, 12, 15)), of_one_count((1, 0), (18, 20, 22))),
    flights(record([STEP, waits(PAIR)], world=2, waited=0.3), record([STEP, PAIR], world=2, waited=0.3)),
    flights(
        record([STEP, waits(FROM_ROOT)], world=2, waited=0.3), record([STEP, FROM_ROOT, FROM_ROOT], world=2, waited=0.3)
    ),
    flights(record([STEP, waits(SENT)], world=2, waited=0.3), record([STEP, RECEIVED], world=2, waited=0.3)),
)

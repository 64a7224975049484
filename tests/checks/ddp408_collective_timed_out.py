"""gloo's, NCCL's and the store's words for it; healthy: ranks that ended in order, or with an error of their own."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import RankError, RankExit
from ddpdoctor.model import Severity
from tests.checks import Sick, at, ranks
from tests.flight_records import STEP, Did, flights, record, waits
from tests.rank_ends import FINE, ended, from_log, gave_up, raised, stood_still

GLOO = RankError(
    type="RuntimeError",
    message="[gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete",
    stack=(Frame(file="/job/train.py", line=61, function="train_step"),),
)
NCCL = (
    "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600042 milliseconds before timing out."
)
TOLD_OF_RANK_5 = (
    "Rank 0] Received a dump signal due to a collective timeout from  rank 5 and we will try our best to dump"
)
HEARD_OF_IT = (
    "[PG ID 0 PG GUID 0(default_pg) Rank 2] Received a dump signal due to a collective timeout from rank 0 and we will try our "
    "best to dump the debug info. Last enqueued NCCL work: 40, last completed NCCL work: 40."
)
LATE = "[Rank 0]: Ranks 2, 3 failed to pass monitoredBarrier in 5000 ms"
WAITS_FOR_A_FILE = Frame(file="/job/manifest.py", line=21, function="wait_for")
TOLD_BY_RANK_0 = (
    "Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0."
)
# eight ranks, of which the first two are in a call of their own that is 0.3 s old
OF_SIX, OF_FIVE = (Did("all_reduce", group="1", members=(*range(first, 8),)) for first in (2, 3))
OF_TWO, OF_ANOTHER_TWO = (
    Did("all_reduce", group=group, members=members) for group, members in (("2", (0, 1)), ("3", (0, 2)))
)
MOVES = record([STEP, *[OF_TWO] * 198, waits(OF_TWO)], world=8, waited=0.3)
IN_THE_SIX = record([STEP, waits(OF_SIX)], world=8, waited=20.0)

# a recorder that was switched off: the dump has the groups and no entry
RECORDED_NOTHING = replace(record([STEP], world=3), call=(), seq=(), stack=(), state=(), created_ns=())

HOROVOD = """step 1 loss 0.5
WARNING: One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting
Stalled ops:grad.weight [missing ranks: 2, 3]
"""
SICK = (
    Sick(
        evidence=from_log(HOROVOD),
        says="Horovod waits in grad.weight; ranks 2-3 did not come",
        ranks=(2, 3),
    ),
    Sick(
        evidence=flights([STEP, STEP, waits(STEP)], [STEP, STEP, waits(STEP)], RECORDED_NOTHING),
        says="ranks 0-1 wait in all_reduce #3, and the dump of rank 2 holds no call",
        ranks=(2,),
        where=at("/home/me/job/train.py:61 train_step", 0, 1),
        measured={"without_dump": [], "older_dump": [], "empty_dump": [2], "waiting": [0, 1]},
    ),
    Sick(
        evidence=ranks(RankExit(exit_code=1, error=GLOO), RankExit(exit_code=1, error=GLOO), RankExit(exit_code=None)),
        says="ranks 0-1 gave up waiting in a collective after 1800 s",
        where=("rank 0 /job/train.py:61 train_step", "rank 1 /job/train.py:61 train_step"),
        measured={"timed_out": [0, 1], "timeout_seconds": 1800.0},
        severity=Severity.WARN,
    ),
    Sick(  # of the rank that gave up nothing is left
        evidence=ranks(RankExit(exit_code=None, tail=(TOLD_OF_RANK_5,))),
        says="rank 5 gave up waiting in a collective that the logs do not name",
        measured={"timed_out": [5]},
        severity=Severity.WARN,
    ),
    Sick(
        evidence=ranks(RankExit(exit_code=-6, tail=(NCCL,)), RankExit(exit_code=None)),
        says="rank 0 gave up waiting in all_reduce #41 after 600 s",
        measured={"timed_out": [0], "timeout_seconds": 600.0},
        severity=Severity.WARN,
    ),
    Sick(  # rank 1 had made three calls fewer than its peers
        evidence=ended(gave_up(0), gave_up(1, seq=38, last=39), gave_up(2), gave_up(3)),
        says="ranks 0-3 gave up waiting in a collective after 600 s; rank 1 never came",
        ranks=(1,),
        measured={"timed_out": [0, 1, 2, 3], "timeout_seconds": 600.0},
    ),
    Sick(  # rank 2, whose watchdog gave up nothing, says which call it had made last
        evidence=ended(gave_up(0, last=41), gave_up(1, last=44), RankExit(exit_code=-6, tail=(HEARD_OF_IT,))),
        says="ranks 0-1 gave up waiting in all_reduce #41 after 600 s; rank 2 never came",
        ranks=(2,),
        measured={"timed_out": [0, 1], "timeout_seconds": 600.0},
    ),
    Sick(  # groups of their own count for themselves, and not all ranks give a gather as much
        evidence=ended(gave_up(0, group="3(tp)"), gave_up(1, "BROADCAST", group="4(tp)"), gave_up(2, group="3(tp)")),
        says="ranks 0-2 gave up waiting in a collective after 600 s",
        measured={"timed_out": [0, 1, 2], "timeout_seconds": 600.0},
        severity=Severity.WARN,
    ),
    Sick(
        evidence=ended(gave_up(0, "GATHER", numel=7), gave_up(1, "GATHER", numel=9)),
        says="ranks 0-1 gave up waiting in gather #41 after 600 s",
        measured={"timed_out": [0, 1], "timeout_seconds": 600.0},
        severity=Severity.WARN,
    ),
    Sick(  # rank 0 says for whom a monitored barrier waited
        evidence=ended(raised(LATE), raised(TOLD_BY_RANK_0)),
        says="rank 0 gave up waiting in a collective after 5 s; ranks 2-3 never came",
        ranks=(2, 3),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"timed_out": [0], "timeout_seconds": 5.0},
    ),
    Sick(  # their launcher asked the late ones where they were before it ended them
        evidence=ended(
            raised(LATE),
            raised(TOLD_BY_RANK_0),
            *(RankExit(exit_code=-15, ended_by_launcher=True, ended_in=(WAITS_FOR_A_FILE,)) for _ in range(2)),
        ),
        says="rank 0 gave up waiting in a collective after 5 s; ranks 2-3 never came",
        ranks=(2, 3),
        where=(
            "rank 2 /job/manifest.py:21 wait_for",
            "rank 3 /job/manifest.py:21 wait_for",
            "rank 0 /home/me/job/train.py:48 train",
        ),
        measured={"timed_out": [0], "timeout_seconds": 5.0},
    ),
    Sick(  # the first rank of another group counts in that group's own numbers
        evidence=ended(None, raised(LATE)),
        says="rank 1 gave up waiting in a collective after 5 s",
        where=("rank 1 /home/me/job/train.py:48 train",),
        measured={"timed_out": [1], "timeout_seconds": 5.0},
        severity=Severity.WARN,
    ),
    Sick(
        evidence=ended(FINE, stood_still(1)),
        says="NCCL's heartbeat monitor aborted rank 1: its watchdog thread was stuck",
        measured={"stood_still": [1]},
        severity=Severity.WARN,
    ),
    Sick(
        evidence=flights([STEP, waits(STEP)], None, [STEP, waits(STEP)]),
        says="ranks 0,2 wait in all_reduce #2, and rank 1 left no dump",
        ranks=(1,),
        where=("rank 0 /home/me/job/train.py:61 train_step", "rank 2 /home/me/job/train.py:61 train_step"),
        measured={"without_dump": [1], "older_dump": [], "empty_dump": [], "waiting": [0, 2]},
    ),
    Sick(  # that two ranks go on for a while tells nothing of the one that the others wait for
        evidence=flights(MOVES, MOVES, *[IN_THE_SIX] * 5, None),
        says="ranks 2-6 wait in all_reduce #1 of group 1, and rank 7 left no dump",
        ranks=(7,),
        where=tuple(f"rank {rank} /home/me/job/train.py:61 train_step" for rank in range(2, 7)),
        measured={"without_dump": [7], "older_dump": [], "empty_dump": [], "waiting": [2, 3, 4, 5, 6]},
    ),
    Sick(  # rank 1 had ended, or was stopped, before it could dump again
        evidence=flights([STEP, waits(STEP)], record([STEP], world=3, waited=0.0), [STEP, waits(STEP)]),
        says="ranks 0,2 wait in all_reduce #2, and the dump of rank 1 is from before that and ends with all_reduce #1",
        ranks=(1,),
        where=at("/home/me/job/train.py:61 train_step", 1, 0, 2),
        measured={"without_dump": [], "older_dump": [1], "empty_dump": [], "waiting": [0, 2]},
    ),
)
HEALTHY = (
    ranks(FINE, FINE),
    flights([STEP], None, [STEP]),
    flights(
        record([STEP, waits(STEP)], waited=1.0), record([STEP], waited=0.0)
    ),  # a job that moves, dumped rank by rank
    flights(  # nobody has waited long for the rank without a dump
        MOVES,
        MOVES,
        record([STEP, waits(OF_ANOTHER_TWO)], world=8, waited=20.0),
        *[record([STEP, *[OF_FIVE] * 198, waits(OF_FIVE)], world=8, waited=0.3)] * 4,
        None,
    ),
)

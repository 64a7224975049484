"""Signals that nobody here sent; one that the launcher sent."""

from dataclasses import replace

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.ranks import RankExit, StepCount
from tests.checks import Sick
from tests.drawn_batches import drew
from tests.rank_ends import FINE, LOST_PEER, ended, raised

TIME_LIMIT = "slurmstepd: error: *** STEP 42.0 ON node1 CANCELLED AT 2026-11-21T04:45:53 DUE TO TIME LIMIT ***"

INTERRUPTED = raised("", "KeyboardInterrupt")
TRAINED = drew(1, 2, of=9)
ENDED = RankExit(exit_code=-15, ended_by_launcher=True)
HELD = Frame(file="/home/me/job/memory.py", line=32, function="enforce")

SICK = (
    Sick(
        evidence=ended(LOST_PEER, LOST_PEER, RankExit(exit_code=-11)),
        says="rank 2 died of SIGSEGV",
        ranks=(2,),
        measured={"signal": "SIGSEGV", "exit_code": -11},
    ),
    Sick(  # its record of its calls outlives it
        evidence=ended((RankExit(exit_code=-9), TRAINED, StepCount(steps=1)), LOST_PEER, LOST_PEER),
        says="rank 0 died of SIGKILL",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:43 run_batch",),
        measured={"signal": "SIGKILL", "exit_code": -9},
    ),
    Sick(  # it killed itself
        evidence=ended(RankExit(exit_code=-9, native_stack=(HELD,)), LOST_PEER, LOST_PEER),
        says="rank 0 died of SIGKILL",
        ranks=(0,),
        where=("rank 0 /home/me/job/memory.py:32 enforce",),
        measured={"signal": "SIGKILL", "exit_code": -9},
    ),
    Sick(
        evidence=ended(INTERRUPTED, LOST_PEER, ENDED),
        says="rank 0 died of SIGINT",
        ranks=(0,),
        where=("rank 0 /home/me/job/train.py:48 train",),
        measured={"signal": "SIGINT", "exit_code": 1},
    ),
    Sick(
        evidence=ended(
            RankExit(exit_code=-15), RankExit(exit_code=-15), job=(JobLog(files=(), lines=1, ended_by=TIME_LIMIT),)
        ),
        says=f"ranks 0-1 died of SIGTERM: {TIME_LIMIT}",
        ranks=(0, 1),
        measured={"signal": "SIGTERM", "exit_code": -15},
    ),
)
HEALTHY = (
    ended(FINE, ENDED),
    ended(FINE, replace(FINE, oom_kills=0)),
    ended(INTERRUPTED, INTERRUPTED),  # Ctrl-C
)

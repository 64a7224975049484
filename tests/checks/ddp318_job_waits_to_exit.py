"""A forgotten thread, and a teardown after an error; healthy: one rank is already leaving while the others still work."""

from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.ranks import JobSize, RankError, RankExit
from ddpdoctor.evidence.stacks import Thread
from tests.checks import Sick
from tests.hangs import C10D, STDLIB, hang, rank, stack

SHUTDOWN = (Frame(file=f"{STDLIB}/threading.py", line=1590, function="_shutdown"),)
UPLOADER = Thread(name="uploader", frames=stack(user=(8, "upload")), os_id=101)
TEARDOWN = stack((C10D, 2361, "destroy_process_group"), user=(99, "main"))
FAILED = RankExit(
    exit_code=None, error=RankError(type="RuntimeError", message="Application timeout caused pair closure")
)

SICK = (
    Sick(
        evidence=hang(rank(SHUTDOWN, others=(UPLOADER,), system_call="futex")),
        says="rank 0 does not exit for 6.1 s: the main thread is in _shutdown, kept alive by upload (train.py:8)",
        ranks=(0,),
        where=("rank 0 /job/train.py:8 upload",),
        measured={"seconds": 6.1, "after_an_error": []},
    ),
    Sick(  # its peers end by themselves, only slowly
        evidence=hang(rank(()), rank(SHUTDOWN, others=(UPLOADER,), system_call="futex"), rank(())),
        says="rank 1 does not exit for 6.1 s: the main thread is in _shutdown, kept alive by upload (train.py:8)",
        ranks=(1,),
        where=("rank 1 /job/train.py:8 upload",),
        measured={"seconds": 6.1, "after_an_error": []},
    ),
    Sick(
        evidence=hang((*rank(TEARDOWN), FAILED), (*rank(TEARDOWN), FAILED), seconds=None),
        says="ranks 0-1 do not exit after an error: the main thread is in destroy_process_group, kept alive by main "
        "(train.py:99)",
        ranks=(0, 1),
        where=("rank 0 /job/train.py:99 main", "rank 1 /job/train.py:99 main"),
        measured={"seconds": None, "after_an_error": [0, 1]},
    ),
)
DONE = RankExit(exit_code=0)
UPLOADS = stack(user=(12, "upload"))
SICK = (
    *SICK,
    Sick(
        evidence=hang(rank(UPLOADS, system_call="clock_nanosleep", moved=False, cpu_share=0.0), (DONE,)),
        says="rank 0 in upload (train.py:12) sleeps for 6.1 s; rank 1 has ended",
        ranks=(0,),
        where=("rank 0 /job/train.py:12 upload",),
        measured={"seconds": 6.1},
    ),
    Sick(  # `ddpdoctor hang`: the launcher started all ranks on this host
        evidence=hang(
            rank(UPLOADS, system_call="clock_nanosleep", moved=False, cpu_share=0.0),
            (DONE,),
            (DONE,),
            facts=(JobSize(ranks=3),),
            seconds=None,
        ),
        says="rank 0 in upload (train.py:12) sleeps; ranks 1-2 have ended",
        ranks=(0,),
        where=("rank 0 /job/train.py:12 upload",),
        measured={"seconds": None},
    ),
)
HEALTHY = (
    hang(rank(UPLOADS, active=True, moved=True, cpu_share=0.9), (DONE,)),  # it evaluates for long after the others
    hang(rank(UPLOADS, system_call="clock_nanosleep", moved=False, cpu_share=0.0), (DONE,), facts=(JobSize(ranks=3),)),
    hang(rank(TEARDOWN), rank(stack(), active=True, moved=True, cpu_share=0.9)),
    hang(rank((), active=True, cpu_share=0.9), rank((), active=True, cpu_share=0.9)),  # a busy machine, a slow end
    hang(
        rank((), active=True, cpu_share=0.1, moved=True), rank(())[:1], seconds=None
    ),  # rank 1 ended during the inspection
)

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.job_log import JobLog
from ddpdoctor.evidence.launch import Arrival, Joining, RankSet
from tests.checks import Sick, job
from tests.hangs import C10D, SCRIPT, hang, rank, stack

WAITS = rank(
    stack((C10D, 1899, "init_process_group"), user=(8, "ddp_setup")),
    system_call="nanosleep",
)


def came(*claims: tuple[int, str]) -> RankSet:
    arrivals = tuple(
        Arrival(rank=rank, world_size=4, host=host, pid=100 + index) for index, (rank, host) in enumerate(claims)
    )
    return RankSet(world_size=4, deadline_seconds=60.0, arrivals=arrivals)


def log(*announced: int) -> Evidence:
    """The log of a job of four ranks, each of which Lightning announces as it starts."""
    return Evidence(job=(JobLog(files=("job.log",), lines=9, world_size=4, announced=announced),), about_job=True)


def joins(*rivals: tuple[int, ...], size: int = 3) -> Evidence:
    """Ranks that wait in `init_process_group` for `size`, each with the other processes that join as this rank."""
    return hang(*((*WAITS, Joining(called=True, world_size=size, rivals=pids)) for pids in rivals))


SICK = (
    Sick(  # `rank=min(rank, 1)` under mp.spawn
        evidence=joins((), (4711,)),
        says="several processes join as rank 1 of 3, and none as rank 2",
        ranks=(1,),
        where=(f"rank 1 {SCRIPT}:8 ddp_setup",),
        measured={"processes": 2},
    ),
    Sick(
        evidence=log(1, 1, 0, 0),
        says="several processes claim ranks 0-1 of 4, and none claims ranks 2-3",
        ranks=(0, 1),
        measured={"processes": 2},
    ),
    Sick(
        evidence=job(came((0, "host-a"), (1, "host-b"), (1, "host-c"), (3, "host-d"))),
        says="2 processes claim rank 1, on host-b and host-c",
        ranks=(1,),
        hosts=("host-b", "host-c"),
        also=("DDP205",),
        measured={"processes": 2},
    ),
)
HEALTHY = (
    job(came((0, "host-a"), (1, "host-b"), (2, "host-c"), (3, "host-d"))),
    log(1, 0, 3, 2),
    log(0, 1),  # one node's log alone
    log(0, 0, 1, 1, 2, 3),
    joins((), (4711,), ()),  # another job of its processes, at the same address after the first had ended
)

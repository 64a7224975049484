from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.launch import Arrival, Joining, RankSet
from tests.checks import Sick, job
from tests.hangs import C10D, SCRIPT, hang, rank, stack

WAITS = rank(
    stack((C10D, 1899, "init_process_group"), user=(8, "ddp_setup")),
    system_call="nanosleep",
)


def told(*sizes: int) -> RankSet:
    arrivals = tuple(
        Arrival(rank=rank, world_size=size, host="host-a", pid=100 + rank) for rank, size in enumerate(sizes)
    )
    return RankSet(world_size=sizes[0], deadline_seconds=60.0, arrivals=arrivals)


def waiting(*sizes: int | None, started: int | None = 3) -> Evidence:
    """Ranks that wait in `init_process_group` for so many ranks each; their launcher started `started`."""
    return hang(*((*WAITS, Joining(called=True, started=started, world_size=size)) for size in sizes))


SICK = (
    Sick(
        evidence=waiting(4, 4, 4),
        says="init_process_group of ranks 0-2 has world size 4; the launcher started 3 ranks",
        ranks=(0, 1, 2),
        where=tuple(f"rank {number} {SCRIPT}:8 ddp_setup" for number in range(3)),
        measured={"world_size": 4, "started": 3},
    ),
    Sick(
        evidence=waiting(3, 2, 3),
        says="init_process_group of rank 1 has world size 2; the launcher started 3 ranks",
        ranks=(1,),
        where=(f"rank 1 {SCRIPT}:8 ddp_setup",),
        measured={"world_size": 2, "started": 3},
    ),
    Sick(  # each from a shell of its own
        evidence=waiting(3, 3, 2, started=None),
        says="init_process_group waits for 3 ranks on ranks 0-1, for 2 on rank 2",
        ranks=(2,),
        where=tuple(f"rank {number} {SCRIPT}:8 ddp_setup" for number in (2, 0, 1)),
        measured={"sizes": {"3": [0, 1], "2": [2]}},
    ),
    Sick(
        evidence=waiting(2, 3, started=None),
        says="init_process_group waits for 2 ranks on rank 0, for 3 on rank 1; no majority: either side may be at fault",
        ranks=(0, 1),
        where=tuple(f"rank {number} {SCRIPT}:8 ddp_setup" for number in (0, 1)),
        measured={"sizes": {"2": [0], "3": [1]}},
    ),
    Sick(
        evidence=job(told(4, 4, 4, 5)),
        says="WORLD_SIZE is 4 on ranks 0-2, 5 on rank 3",
        ranks=(3,),
        measured={"sizes": {"4": [0, 1, 2], "5": [3]}},
    ),
    Sick(
        evidence=job(told(2, 3)),
        says="WORLD_SIZE is 2 on rank 0, 3 on rank 1; no majority: either side may be at fault",
        ranks=(0, 1),
        measured={"sizes": {"2": [0], "3": [1]}},
    ),
)
HEALTHY = (
    job(told(2, 2)),
    waiting(3, 3, None),  # the third one has not come yet
    waiting(4, 4, started=None),  # nobody knows what was started
)

from ddpdoctor.evidence.launch import Arrival, RankSet
from tests.checks import Sick, job


def told(*sizes: int) -> RankSet:
    arrivals = tuple(
        Arrival(rank=rank, world_size=size, host="host-a", pid=100 + rank) for rank, size in enumerate(sizes)
    )
    return RankSet(world_size=sizes[0], deadline_seconds=60.0, arrivals=arrivals)


SICK = (
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
HEALTHY = (job(told(2, 2)),)

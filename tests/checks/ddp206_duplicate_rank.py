from ddpdoctor.evidence.launch import Arrival, RankSet
from tests.checks import Sick, job


def came(*claims: tuple[int, str]) -> RankSet:
    arrivals = tuple(
        Arrival(rank=rank, world_size=4, host=host, pid=100 + index) for index, (rank, host) in enumerate(claims)
    )
    return RankSet(world_size=4, deadline_seconds=60.0, arrivals=arrivals)


SICK = (
    Sick(
        evidence=job(came((0, "host-a"), (1, "host-b"), (1, "host-c"), (3, "host-d"))),
        says="2 processes claim rank 1, on host-b and host-c",
        ranks=(1,),
        hosts=("host-b", "host-c"),
        also=("DDP205",),
        measured={"processes": 2},
    ),
)
HEALTHY = (job(came((0, "host-a"), (1, "host-b"), (2, "host-c"), (3, "host-d"))),)

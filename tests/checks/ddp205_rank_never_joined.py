"""DDP205 rank-never-joined."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.launch import Arrival, RankSet
from tests.checks import Sick, job
from tests.rank_ends import from_log

BARRIER = "".join(
    f"Waiting in store based barrier to initialize process group for rank: {rank}, key: store_based_barrier_key:1 "
    f"(world_size=4, worker_count={came}, timeout=0:30:00)\n"
    for rank, came in ((0, 1), (3, 2), (1, 3))
)


def met(*claims: tuple[int, int, int], world_size: int) -> Evidence:
    """Each claim is a rank, the world size that it was told, and its pid."""
    return job(
        RankSet(
            world_size=world_size,
            deadline_seconds=60.0,
            arrivals=tuple(Arrival(rank=rank, world_size=size, host="host-a", pid=pid) for rank, size, pid in claims),
        )
    )


SICK = (
    Sick(
        evidence=met((0, 4, 10), (1, 4, 11), (3, 4, 13), world_size=4),
        says="rank 2 of 4 did not join within 60 s; 3 joined",
        ranks=(2,),
        measured={"came": 3, "deadline_seconds": 60.0},
    ),
    Sick(
        evidence=from_log(BARRIER),
        says="3 of 4 ranks have come to the rendezvous and wait for the others (world_size=4, worker_count=3); rank 2 has not "
        "come",
        ranks=(2,),
        measured={"size": 4, "came": 3},
    ),
)
HEALTHY = (met((1, 2, 11), (0, 2, 10), world_size=2),)

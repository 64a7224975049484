"""DDP205 rank-never-joined."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.launch import Arrival, RankSet
from tests.checks import Sick, job


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
)
HEALTHY = (met((1, 2, 11), (0, 2, 10), world_size=2),)

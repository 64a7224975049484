"""DDP225 local-world-size-wrong."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.launch import Arrival, Launch, RankSet
from tests.checks import Sick, ranks


def by_hand(*local: int, per_host: int, world_size: int = 0) -> Evidence:
    """Ranks with these LOCAL_WORLD_SIZEs, all of whom came."""
    size = world_size or len(local)
    told = ranks(
        *(
            Launch(launcher="torch", rank=rank, world_size=size, local_world_size=each)
            for rank, each in enumerate(local)
        ),
        per_host=per_host,
    )
    arrivals = tuple(Arrival(rank=one.rank, world_size=size, host=one.host, pid=100 + one.rank) for one in told.ranks)
    return Evidence(job=(RankSet(world_size=size, deadline_seconds=60.0, arrivals=arrivals),), ranks=told.ranks)


ALONE = Launch(launcher="torch", rank=0, world_size=6, local_world_size=4)

SICK = (
    Sick(
        evidence=by_hand(4, 4, 4, 4, 4, 4, per_host=4),
        says="LOCAL_WORLD_SIZE=4 on host-b, which runs 2 of the 6 ranks: ranks 4-5",
        ranks=(4, 5),
        hosts=("host-b",),
        measured={"local_world_size": 4, "held": 2},
    ),
    Sick(
        evidence=ranks(Launch(launcher="torch", rank=0, world_size=2, local_world_size=8)),
        says="LOCAL_WORLD_SIZE=8 on host-a is more than WORLD_SIZE=2",
        ranks=(0,),
        hosts=("host-a",),
        measured={"local_world_size": 8, "held": 1},
    ),
)
HEALTHY = (
    by_hand(4, 4, 4, 4, 2, 2, per_host=4),  # an uneven job that says so
    by_hand(2, 2, 2, 2, per_host=4),  # two nodes played on one host
    ranks(ALONE),  # 6 is no multiple of 4; one process cannot know what the other nodes hold
)

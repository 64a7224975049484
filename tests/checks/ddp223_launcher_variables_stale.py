"""DDP223 launcher-variables-stale."""

from __future__ import annotations

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.launch import Arrival, Launch, RankSet
from tests.checks import Sick, one_host, ranks


def shell(rank: int, *, launcher: str = "torch", by_hand: bool = True) -> Launch:
    return Launch(launcher=launcher, rank=rank, world_size=2, by_hand=by_hand)


def met(evidence: Evidence, *came: int) -> Evidence:
    arrivals = tuple(Arrival(rank=rank, world_size=2, host="host-a", pid=100 + rank) for rank in came)
    return Evidence(job=(RankSet(world_size=2, deadline_seconds=60.0, arrivals=arrivals),), ranks=evidence.ranks)


SICK = (
    Sick(
        evidence=met(ranks(shell(0)), 0),
        says="RANK and WORLD_SIZE in the shell on host-a make this process rank 0 of 2, but no launcher started it and "
        "no other rank joined",
        ranks=(0,),
        also=("DDP205",),
        hosts=("host-a",),
        measured={"world_size": 2},
    ),
    Sick(
        evidence=one_host(shell(1, launcher="Slurm")),
        says="the variables of Slurm in the shell on host-a make this process rank 1 of 2, but no launcher started it "
        "and no other rank joined",
        ranks=(1,),
        hosts=("host-a",),
        measured={"world_size": 2},
    ),
)
HEALTHY = (
    met(ranks(shell(0), shell(1)), 0, 1),  # two terminals, a rank in each
    one_host(shell(0, by_hand=False)),
)

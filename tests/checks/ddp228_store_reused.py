"""Logs: more workers in the store than the job has."""

from tests.checks import Sick
from tests.rank_ends import from_log

STORE_BARRIER_MANY = r"""RuntimeError: Timed out initializing process group in store based barrier on rank: 7, for key: store_based_barrier_key:1 (world_size=8, worker_count=9, timeout=0:30:00)
"""  # noqa: E501 - as libraries write it
STORE_BARRIER_WAITING = r"""Added key: store_based_barrier_key:1 to store for rank: 0
Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:30:00)
Waiting in store based barrier to initialize process group for rank: 0, key: store_based_barrier_key:1 (world_size=4, worker_count=8, timeout=0:30:00)
"""  # noqa: E501 - as libraries write it

SICK = (
    Sick(
        evidence=from_log(STORE_BARRIER_MANY),
        says="9 processes met in a rendezvous of 8 (world_size=8, worker_count=9): its store was used before, or by another job",
        measured={"size": 8, "came": 9},
    ),
    Sick(
        evidence=from_log(STORE_BARRIER_WAITING),
        says="8 processes met in a rendezvous of 4 (world_size=4, worker_count=8): its store was used before, or by another job",
        measured={"size": 4, "came": 8},
    ),
)
HEALTHY = (
    from_log(
        "Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 8 nodes.\nstep 10 loss 2.31\nstep 20 "
        "loss 2.20\n"
    ),
)

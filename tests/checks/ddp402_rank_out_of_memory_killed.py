"""SIGKILL with the proof that it was for memory; cgroup events of a rank that lives."""

from ddpdoctor.evidence.ranks import RankExit
from tests.checks import Sick
from tests.rank_ends import FINE, LOST_PEER, ended

SICK = (
    Sick(
        evidence=ended(LOST_PEER, RankExit(exit_code=-9, oom_kills=1, memory_limit_bytes=4 << 30)),
        says="rank 1 died of SIGKILL for memory: its cgroup with a limit of 4.0 GiB ran out of memory once",
        ranks=(1,),
        measured={
            "proofs": ["its cgroup with a limit of 4.0 GiB ran out of memory once"],
            "memory_limit_bytes": 4294967296,
            "memory_peak_bytes": None,
        },
    ),
    Sick(
        evidence=ended(RankExit(exit_code=137, kernel_said="Out of memory: Killed process 4242 (python)"), LOST_PEER),
        says="rank 0 died of SIGKILL for memory: Out of memory: Killed process 4242 (python)",
        ranks=(0,),
        measured={
            "proofs": ["Out of memory: Killed process 4242 (python)"],
            "memory_limit_bytes": None,
            "memory_peak_bytes": None,
        },
    ),
)
HEALTHY = (ended(RankExit(exit_code=0, oom_kills=1), FINE),)

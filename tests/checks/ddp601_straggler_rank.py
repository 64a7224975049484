"""A slow rank among four and among two, in each part of a step; healthy: taking turns, one long pause, a little, briefly.

And ranks that are slow at the same work in a benchmark; healthy: a core shared with one other, jitter that hits all in turn.
"""

from collections.abc import Callable

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench
from tests.checks import Sick, job
from tests.paces import steps, usual


def bench(*seconds: Callable[[int], float], on_cpu: float = 1.0, device: str = "cpu", per_host: int = 2) -> Evidence:
    """A benchmark with `per_host` ranks on node0, node1, ..., whose work took `seconds[rank](round)`."""
    ranks = []
    for rank, own in enumerate(seconds):
        took = tuple(own(number) for number in range(6))
        had = tuple(each * (on_cpu if each > 0.2 else 1.0) for each in took)
        host = f"node{rank // per_host}"
        ranks.append(BenchRank(host=host, cores=8, device=device, work_seconds=took, work_on_cpu=had))
    return job(
        CollectiveBench(
            collective="all_reduce", dtype="float32", op="sum", backend="gloo", torch="2.13.0", ranks=tuple(ranks)
        )
    )


def tenth(_: int) -> float:
    return 0.1


SICK = (
    Sick(
        evidence=steps(usual, usual, lambda _: {"batch": 30}, usual),
        says="rank 2 comes to 39 of 39 meetings 30 ms after the last of its peers, who spend 59 % of their time waiting for it; "
        "it loses 30 ms between its batch and its forward",
        ranks=(2,),
    ),
    Sick(
        evidence=steps(lambda step: {"forward": 13 + step % 3}, usual),
        says="rank 0 comes to 39 of 39 meetings 14 ms after the last of its peers, who spend 40 % of their time waiting for it; "
        "it loses 14 ms in its forward and backward",
        ranks=(0,),
    ),
    Sick(
        evidence=steps(usual, lambda _: {"input": 19}, usual),
        says="rank 1 comes to 39 of 39 meetings 19 ms after the last of its peers, who spend 48 % of their time waiting for it; "
        "it loses 19 ms while it waits for its batch",
        ranks=(1,),
    ),
    Sick(
        evidence=bench(tenth, tenth, lambda _: 0.5, lambda number: 0.4 + 0.1 * (number % 2), tenth, tenth, on_cpu=0.2),
        says="ranks 2-3 on node1: 4.8 times the median rank's time for the same work with nobody to wait for, in 6 of 6 "
        "rounds; on a processor for 20% of that",
        ranks=(2, 3),
        hosts=("node1",),
    ),
    Sick(
        evidence=bench(tenth, tenth, lambda number: 0.1 if number == 0 else 0.3, per_host=1),
        says="rank 2 on node2: 3.0 times the median rank's time for the same work with nobody to wait for, in 5 of 6 rounds; "
        "on a processor for 100% of that",
        ranks=(2,),
        hosts=("node2",),
    ),
    Sick(
        evidence=bench(tenth, tenth, tenth, lambda _: 0.4, device="NVIDIA H100", per_host=4),
        says="rank 3 on node0: 4.0 times the median rank's time for the same work with nobody to wait for, in 6 of 6 rounds",
        ranks=(3,),
        hosts=("node0",),
    ),
)
HEALTHY = (
    bench(tenth, tenth, lambda _: 0.2),  # its core is shared with one other program
    bench(*(lambda number, rank=rank: 0.1 if number % 3 != rank else 0.9 for rank in range(3))),  # a busy machine
    steps(usual, usual),
    steps(*(lambda step, rank=rank: {"batch": 30 if step % 3 == rank else 0} for rank in range(3))),  # long samples
    steps(lambda step: {"batch": 20_000 if step == 20 else 0}, usual, usual),  # one evaluation
    steps(lambda _: {"forward": 1}, usual, usual),
    steps(lambda _: {"forward": 9}, usual),  # for 0.4 s in all, as one of two that share a processor may be
)

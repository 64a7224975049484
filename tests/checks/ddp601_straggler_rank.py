"""A slow rank among four and among two, in each part of a step; healthy: taking turns, one long pause, a little, briefly.

And ranks that are slow at the same work in a benchmark; healthy: a core shared with one other, jitter that hits all in turn.
A rank whose processor other programs hold is not slow by what it does.
"""

from collections.abc import Callable

from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.bench import BenchRank, CollectiveBench
from ddpdoctor.evidence.step_times import ProcessorTime
from tests.checks import Sick, job
from tests.step_times import majority, steps, with_processor_time


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


def had(ran: float, ready: float, workers_ready: float = 0.0, used: float = 0.0) -> ProcessorTime:
    """Ten seconds of a rank that ran and waited for a processor for so long, on a host with two."""
    return ProcessorTime(
        seconds=10.0, ran=ran, ready=ready, workers_ready=workers_ready, used=used, processors=2 if used else 0
    )


def late_into_steps(
    evidence: Evidence, *, rank: int, milliseconds: int, share: float, phase: str | None, last_in: int = 39
) -> Sick:
    """The job of `tests.step_times.steps` with a rank that is late into every collective by what it does in one phase."""
    return Sick(
        evidence=evidence,
        says=f"rank {rank} is last into {last_in} of 39 collectives, {milliseconds} ms behind; "
        f"its peers wait {share:.0%} of their time{f'; it loses {milliseconds} ms {phase}' if phase else ''}".replace(
            "%", " %"
        ),
        ranks=(rank,),
        where=(f"rank {rank} /home/me/job/train.py:60 train_step",),
        measured={
            "seconds_late": milliseconds / 1000,
            "share": share,
            "rounds": 39,
            "last_in": last_in,
            "phase": phase,
        },
    )


SICK = (
    late_into_steps(
        steps(majority, majority, lambda _: {"batch": 30}, majority),
        rank=2,
        milliseconds=30,
        share=0.588235,
        phase="between its batch and its forward",
    ),
    late_into_steps(  # on a crowded host: its additional work waits for a processor as long as that of its peers does
        with_processor_time(steps(lambda _: {"forward": 30}, majority), had(3.0, 6.0), had(1.0, 2.0)),
        rank=0,
        milliseconds=30,
        share=0.588235,
        phase="in its forward and backward",
    ),
    late_into_steps(  # on a crowded host: it sleeps for longer than it waits for a processor, as all do
        with_processor_time(steps(lambda _: {"batch": 30}, majority), had(0.5, 3.0), had(0.5, 3.0)),
        rank=0,
        milliseconds=30,
        share=0.588235,
        phase="between its batch and its forward",
    ),
    late_into_steps(  # slow from a step on, as by a list that grows
        steps(majority, lambda step: {"batch": 40 if step >= 19 else 0}, majority),
        rank=1,
        milliseconds=40,
        share=0.506329,
        phase="between its batch and its forward",
        last_in=21,
    ),
    late_into_steps(
        steps(lambda step: {"forward": 13 + step % 3}, majority),
        rank=0,
        milliseconds=14,
        share=0.4,
        phase="in its forward and backward",
    ),
    late_into_steps(
        steps(majority, lambda _: {"input": 19}, majority),
        rank=1,
        milliseconds=19,
        share=0.475,
        phase="while it waits for its batch",
    ),
    late_into_steps(  # its own workers fill the processors
        with_processor_time(
            steps(lambda _: {"input": 19}, majority), had(0.3, 0.1, 6.0, used=17.0), had(0.3, 0.1, 0.2, used=1.5)
        ),
        rank=0,
        milliseconds=19,
        share=0.475,
        phase="while it waits for its batch",
    ),
    Sick(
        evidence=bench(tenth, tenth, lambda _: 0.5, lambda number: 0.4 + 0.1 * (number % 2), tenth, tenth, on_cpu=0.2),
        says="ranks 2-3 on node1: 4.8x the median for identical local compute in 6 of 6 rounds; scheduled on a CPU 20 % "
        "of the time",
        ranks=(2, 3),
        hosts=("node1",),
        measured={"times": 4.75, "rounds": 6, "slow_in": 6, "on_cpu": 0.2},
    ),
    Sick(
        evidence=bench(tenth, tenth, lambda number: 0.1 if number == 0 else 0.3, per_host=1),
        says="rank 2 on node2: 3.0x the median for identical local compute in 5 of 6 rounds; scheduled on a CPU 100 % "
        "of the time",
        ranks=(2,),
        hosts=("node2",),
        measured={"times": 3.0, "rounds": 6, "slow_in": 5, "on_cpu": 1.0},
    ),
    Sick(
        evidence=bench(tenth, tenth, tenth, lambda _: 0.4, device="NVIDIA H100", per_host=4),
        says="rank 3 on node0: 4.0x the median for identical local compute in 6 of 6 rounds",
        ranks=(3,),
        hosts=("node0",),
        measured={"times": 4.0, "rounds": 6, "slow_in": 6, "on_cpu": None},
    ),
)
HEALTHY = (
    bench(tenth, tenth, lambda _: 0.2),  # its core is shared with one other program
    bench(*(lambda number, rank=rank: 0.1 if number % 3 != rank else 0.9 for rank in range(3))),  # a busy machine
    steps(majority, majority),
    steps(*(lambda step, rank=rank: {"batch": 30 if step % 3 == rank else 0} for rank in range(3))),  # long samples
    steps(lambda step: {"batch": 20_000 if step == 20 else 0}, majority, majority),  # one evaluation
    steps(  # long samples on two ranks in turn, and one evaluation
        lambda step: {"batch": 20_000 if step == 20 else 30 if step % 2 else 0},
        lambda step: {"batch": 0 if step % 2 else 30},
    ),
    steps(lambda _: {"forward": 1}, majority, majority),
    with_processor_time(steps(lambda _: {"forward": 30}, majority), had(1.0, 6.0), had(1.0, 2.0)),  # kept from running
    with_processor_time(steps(lambda _: {"batch": 30}, majority), had(0.6, 7.0), had(0.6, 6.5)),  # all wait for long
    with_processor_time(steps(lambda _: {"input": 30}, majority), had(1.0, 2.0, 5.0), had(1.0, 2.0, 1.0)),  # its loader
    with_processor_time(  # its loader, beside programs of others
        steps(lambda _: {"input": 30}, majority), had(1.0, 2.0, 5.0, used=5.0), had(1.0, 2.0, 1.0, used=4.0)
    ),
    steps(lambda _: {"forward": 9}, majority),  # for 0.4 s in all, as one of two that share a processor may be
)

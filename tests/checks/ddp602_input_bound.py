"""Batches that take longer than the steps; healthy: a quick loader, and workers that get no processor on a crowded host."""

from ddpdoctor.evidence.step_times import ProcessorTime
from tests.checks import Sick
from tests.step_times import majority, steps, with_processor_time

LATE = steps(*(lambda _: {"input": 200},) * 2, count=60)
ON_TIME = ProcessorTime(seconds=10.0, ran=0.9, ready=0.3, workers_ready=0.4)


def crowded(used: float) -> ProcessorTime:
    """Workers that waited for a processor most of the time on a host with two, of which this rank used so many seconds."""
    return ProcessorTime(seconds=10.0, ran=0.3, ready=0.1, workers_ready=7.5, used=used, processors=2)


SICK = (
    Sick(  # its own workers fill the processors
        evidence=with_processor_time(LATE, crowded(9.5), crowded(9.0)),
        says="ranks wait for batches during 92 % of the training time",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:60 train_step",),
        measured={"share": 0.915291},
    ),
    Sick(
        evidence=with_processor_time(LATE, ON_TIME, ON_TIME),
        says="ranks wait for batches during 92 % of the training time",
        ranks=(0, 1),
        where=("rank 0 /home/me/job/train.py:60 train_step",),
        measured={"share": 0.915291},
    ),
)
HEALTHY = (
    with_processor_time(LATE, crowded(5.0), crowded(5.0)),  # others have half of the processors
    steps(majority, majority, count=400),
    with_processor_time(LATE, *(ProcessorTime(seconds=10.0, ran=0.9, ready=2.0, workers_ready=6.0),) * 2),
    with_processor_time(LATE, *(ProcessorTime(seconds=10.0, ran=2.0, ready=7.0),) * 2),  # a loader without workers
)

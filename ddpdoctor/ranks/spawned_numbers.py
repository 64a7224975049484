"""The numbers that `torch.multiprocessing.spawn` gave to the ranks of a job: they stand on the stacks of its processes.

Without them ranks are numbered by age, which is wrong from the first one that has ended on.
"""

from __future__ import annotations

from dataclasses import replace

from ddpdoctor.host.running_jobs import RunningJob
from ddpdoctor.ranks.stacks import integers_of

_SPAWN = "/torch/multiprocessing/spawn.py"


def numbered(job: RunningJob) -> RunningJob:
    """The job with the numbers of its ranks, and how many were started; as it is where the stacks do not tell all of them."""
    if job.spawned_by is None:
        return job
    numbers = integers_of(job.pids, file=_SPAWN, function="_wrap", name="i")
    if {*numbers} != {*job.pids} or len({*numbers.values()}) < len(numbers):
        return job
    started = integers_of([job.spawned_by], file=_SPAWN, function="start_processes", name="nprocs").get(job.spawned_by)
    targets = sorted((replace(one, rank=numbers[one.pid]) for one in job.targets), key=lambda one: one.rank)
    if started is None or started <= targets[-1].rank:  # with join=False, nobody ends the others where one fails
        return replace(job, targets=tuple(targets), world_size=targets[-1].rank + 1, guessed=False, spawned_by=None)
    return replace(job, targets=tuple(targets), world_size=started, guessed=False)

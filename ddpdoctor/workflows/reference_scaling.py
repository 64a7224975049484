"""Run the reference job on one rank and on more, and keep how fast each was."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Sequence

import psutil

from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import ScalingPoint, ScalingRun, TrainingRun
from ddpdoctor.host.cgroup import Cgroup
from ddpdoctor.host.host_access import HostAccess
from ddpdoctor.launch.ranks import MAX_LOCAL_RANKS
from ddpdoctor.workflows.reference_job import OnEvent, ReferenceJob, run_training

STEPS = 60  # a second on a core; the first ones, with their allocations, weigh little then
BATCH = 64  # samples per rank in the weak runs, and of one rank in the strong ones


def ranks_of(words: str) -> tuple[int, ...]:
    """The numbers of ranks in `1,2,4`, ascending.

    Raises:
        UsageError: one is not a number of ranks, or 1 is missing, without which there is no efficiency.
    """
    try:
        numbers = sorted({int(word) for word in words.split(",")})
    except ValueError:
        raise UsageError(
            f"--scaling {words!r} is not a list of numbers of ranks", hint="such as --scaling 1,2,4"
        ) from None
    for number in numbers:
        if not 1 <= number <= MAX_LOCAL_RANKS:
            raise UsageError(
                f"--scaling {words}: {number} is not a number of ranks between 1 and {MAX_LOCAL_RANKS}",
                hint="such as --scaling 1,2,4",
            )
    if numbers[0] != 1 or len(numbers) == 1:
        raise UsageError(
            f"--scaling {words} must include 1 (the baseline) and a larger number",
            hint=f"such as --scaling 1,{max(2, numbers[-1])}",
        )
    return tuple(numbers)


def run_scaling(
    arguments: Sequence[str], *, ranks: Sequence[int], deadline_seconds: float, on_event: OnEvent | None
) -> Evidence:
    """The evidence of a weak and a strong run on each number of ranks, and of the last weak run.

    Raises:
        UsageError: the job refused its input.
    """
    cores = usable_cores()
    # one rank must not have more threads than each of many
    alike = {"OMP_NUM_THREADS": str(max(1, cores // ranks[-1]))}
    weak, strong = ("--batch-per-rank", str(BATCH)), ("--batch-size", str(BATCH * ranks[-1]))
    runs: list[TrainingRun] = []
    others = OtherLoad()
    for number, batch in [(number, batch) for number in ranks for batch in (weak, strong)]:
        job = ReferenceJob(
            arguments=[*arguments, *batch, "--max-steps", str(STEPS)],
            nproc=number, deadline_seconds=deadline_seconds, on_event=on_event, env=alike,
        )  # fmt: skip
        evidence, _ = run_training(job)
        run = evidence.one(TrainingRun)
        if run is None:
            return evidence
        runs.append(run)
    points = tuple(
        ScalingPoint(
            ranks=first.world_size,
            weak=first.samples_per_second,
            strong=second.samples_per_second,
            overlap=first.overlap,
        )
        for first, second in zip(runs[::2], runs[1::2], strict=True)
    )
    last = runs[-2]
    scaling = ScalingRun(
        model=last.model, backend=last.backend, device=last.device, cores=cores, points=points,
        cores_of_others=others.cores(),
    )  # fmt: skip
    return Evidence(job=(last, scaling))


def usable_cores() -> int:
    """The processors that this process may use at once, in a container with a quota no more than that."""
    cores = len(os.sched_getaffinity(0))
    quota = Cgroup(HostAccess()).quota_cores()
    return cores if quota is None else max(1, min(cores, int(quota)))


class OtherLoad:
    """How busy other programs keep the processors that this process may use, from its making on."""

    def __init__(self) -> None:
        self._begin, self._busy, self._ours = time.monotonic(), _busy_seconds(), _our_seconds()

    def cores(self) -> float:
        """The processors that they used, on the average; the time that a hypervisor gave to others counts."""
        theirs = (_busy_seconds() - self._busy) - (_our_seconds() - self._ours)
        return max(0.0, theirs / (time.monotonic() - self._begin))


def _busy_seconds() -> float:
    usable = os.sched_getaffinity(0)
    times = [each for number, each in enumerate(psutil.cpu_times(percpu=True)) if number in usable]
    return sum(each.user + each.nice + each.system + each.irq + each.softirq + each.steal for each in times)


def _our_seconds() -> float:
    """Processor time of this process and of all that it started and that has ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)

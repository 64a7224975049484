"""Run the known-good job on one rank and on more, and keep how fast each was."""

from __future__ import annotations

import os
from collections.abc import Sequence

from ddpdoctor.collect.training import OnEvent, run_training
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import ScalingPoint, ScalingRun, TrainingRun
from ddpdoctor.launch.ranks import checked_nproc

STEPS = 60  # a second on a core; the first ones, with their allocations, weigh little then
BATCH = 64  # samples a rank in the weak runs, and of one rank in the strong ones


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
        checked_nproc(number)
    if numbers[0] != 1 or len(numbers) == 1:
        raise UsageError(f"--scaling {words} compares with one rank", hint=f"such as --scaling 1,{max(2, numbers[-1])}")
    return tuple(numbers)


def run_scaling(
    arguments: Sequence[str], *, ranks: Sequence[int], deadline_seconds: float, on_event: OnEvent | None = None
) -> Evidence:
    """The evidence of a weak and a strong run on each number of ranks, and of the last weak run.

    Raises:
        UsageError: the job refused its input.
    """
    cores = len(os.sched_getaffinity(0))
    alike = {
        "OMP_NUM_THREADS": str(max(1, cores // ranks[-1]))
    }  # one rank must not have more threads than the others had
    points: list[ScalingPoint] = []
    last: TrainingRun | None = None
    for number in ranks:
        speeds: list[TrainingRun] = []
        for batch in (("--batch-per-rank", str(BATCH)), ("--batch-size", str(BATCH * ranks[-1]))):
            evidence, _ = run_training(
                [*arguments, *batch, "--max-steps", str(STEPS)],
                nproc=number, deadline_seconds=deadline_seconds, on_event=on_event, env=alike,
            )  # fmt: skip
            run = evidence.one(TrainingRun)
            if run is None:
                return evidence
            speeds.append(run)
        last, strong = speeds
        points.append(
            ScalingPoint(
                ranks=number, weak=last.samples_per_second, strong=strong.samples_per_second, overlap=last.overlap
            )
        )
    assert last is not None
    scaling = ScalingRun(model=last.model, backend=last.backend, device=last.device, cores=cores, points=tuple(points))
    crowded = [number for number in ranks if number > cores]
    notes = (
        (f"{crowded[0]} ranks share {cores} cores: they take turns, and their efficiency says nothing about DDP",)
        if crowded and last.device == "cpu"
        else ()
    )
    return Evidence(job=(last, scaling), notes=notes)

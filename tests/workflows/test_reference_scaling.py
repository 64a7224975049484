"""What `--scaling` takes, and what a run that was cut short is worth."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import ScalingPoint, ScalingRun, TrainingRun
from ddpdoctor.model import Skipped
from ddpdoctor.workflows.reference_scaling import OtherLoad, ranks_of, usable_cores
from tests.waiting import PROGRAM_SECONDS


def test_numbers_of_ranks_are_sorted_and_counted_once() -> None:
    assert ranks_of("4,1,2,2") == (1, 2, 4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("2,4", "--scaling 2,4 must include 1 (the baseline) and a larger number"),
        ("1", "--scaling 1 must include 1 (the baseline) and a larger number"),
        ("1,x", "--scaling '1,x' is not a list of numbers of ranks"),
        ("1,0", "--scaling 1,0: 0 is not a number of ranks between 1 and 256"),
    ],
)
def test_a_list_without_sense_is_refused(words: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        ranks_of(words)
    assert says in caught.value.message


def test_a_run_that_was_cut_short_is_not_judged_by_its_accuracy() -> None:
    short = TrainingRun(
        dataset="digits", model="digitnet", world_size=2, backend="gloo", device="cpu", epochs=(), batch_size=64, seed=1,
        accuracy=0.1, test_loss=2.3, test_samples=1000, samples_per_second=1.0, seconds=1.0, weights=("a", "a"),
        complete=False,
    )  # fmt: skip
    assert not diagnose(Evidence(job=(short,))).findings


@pytest.mark.parametrize(
    ("cores", "others", "why"),
    [
        (1, 0.0, "2 ranks share 1 CPU cores, so their speed says nothing about DDP"),
        (2, 1.4, "other programs used 1.4 of 2 cores during the measurement"),
    ],
    ids=["fewer cores than ranks", "a busy machine"],
)
def test_scaling_that_cannot_be_judged_is_skipped_with_the_reason(cores: int, others: float, why: str) -> None:
    slow = ScalingRun(
        model="digitnet", backend="gloo", device="cpu", cores=cores, cores_of_others=others,
        points=tuple(ScalingPoint(ranks=ranks, weak=5000 / ranks, strong=1, overlap=None) for ranks in (1, 2)),
    )  # fmt: skip
    outcome = next(o for o in diagnose(Evidence(job=(slow,))).outcomes if o.rule.code == "DDP608")
    assert isinstance(outcome, Skipped)
    assert outcome.reason == why


def test_the_usable_cores_are_those_of_the_affinity() -> None:
    everything = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, {min(everything)})
        assert usable_cores() == 1
    finally:
        os.sched_setaffinity(0, everything)


SPIN = "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass"


def test_what_others_use_is_told_from_what_we_use() -> None:
    def used_beside(us: list[str]) -> float:
        """Processor seconds of others while `us` runs."""
        begin, others = time.monotonic(), OtherLoad()
        subprocess.run(us, check=True, timeout=PROGRAM_SECONDS)
        return others.cores() * (time.monotonic() - begin)

    stranger = subprocess.Popen(["setsid", "--fork", sys.executable, "-c", SPIN])  # nobody of ours waits for it
    assert stranger.wait(timeout=PROGRAM_SECONDS) == 0
    with_a_stranger = used_beside([sys.executable, "-c", SPIN])
    assert with_a_stranger > 0.2

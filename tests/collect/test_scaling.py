"""What `--scaling` takes, and what a run that was cut short is worth."""

from __future__ import annotations

import pytest

from ddpdoctor.collect.scaling import ranks_of
from ddpdoctor.engine import diagnose
from ddpdoctor.errors import UsageError
from ddpdoctor.evidence import Evidence
from ddpdoctor.evidence.training import TrainingRun


def test_numbers_of_ranks_are_sorted_and_counted_once() -> None:
    assert ranks_of("4,1,2,2") == (1, 2, 4)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("2,4", "--scaling 2,4 compares with one rank"),
        ("1", "--scaling 1 compares with one rank"),
        ("1,x", "--scaling '1,x' is not a list of numbers of ranks"),
        ("1,0", "--nproc 0 is not a number of ranks between 1 and 256"),
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

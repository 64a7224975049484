"""What an optimizer stepped with first is compared, also where no audit came to one of its steps: a generator's, say."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.replicas.settings_of_ranks import first_settings_differ
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import OptimizerSteps, Track

MADE = Frame(file="train.py", line=67, function="worker")


def track(*rates: str, parameters: str = "6") -> Track:
    """A rank whose optimizers stepped with these rates first."""
    return Track(
        method="linear", every=0,
        by_optimizer=tuple(
            OptimizerSteps(
                name="Adam", steps=80, first=None, began=3 * at, settings={"lr": rate, "number of parameters": parameters},
                setting_lines={"lr": MADE},
            )
            for at, rate in enumerate(rates)
        ),
    )  # fmt: skip


def test_the_rank_with_another_rate_is_named_with_the_line_that_gave_it() -> None:
    tracks = {0: track("0.1", "0.002"), 1: track("0.1", "0.002"), 2: track("0.1", "0.004")}
    (found,) = first_settings_differ(tracks, None)
    assert (found.step, found.ranks, found.names, found.lines[2]) == (3, (2,), ("lr",), MADE)


@pytest.mark.parametrize(
    "other",
    [track("0.1", "0.002"), track("0.1", "0.002", parameters="3"), track("0.3")],
    ids=["alike", "a part of the parameters", "another number of optimizers"],
)
def test_ranks_with_equal_settings_are_healthy(other: Track) -> None:
    assert not [*first_settings_differ({0: track("0.1", "0.002"), 1: other}, None)]

"""What an optimizer stepped with first and last is compared, also where no audit came to one of its steps: a generator's, say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ddpdoctor.analysis.replicas.settings_of_ranks import first_settings_differ, last_settings_differ
from ddpdoctor.evidence.frames import Frame
from ddpdoctor.evidence.training_trace import LastSettings, Left, OptimizerSteps, Track

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


def ended(rate: str, weights: str, moment: str = "pass 3", looked: str = "pass 3") -> Track:
    """A rank whose schedule had come to this rate in the end, after 60 steps with these weights."""
    last = LastSettings(steps=60, moment=looked, settings={"lr": rate}, setting_lines={"lr": MADE})
    made = OptimizerSteps(name="SGD", steps=60, first=None, settings={"lr": "0.1"}, last=last)
    return Track(method="linear", every=0, left=(Left(step=60, weights=weights, moment=moment),), by_optimizer=(made,))


def test_a_rate_that_differed_behind_the_last_audit_is_named_where_the_weights_differ() -> None:
    tracks = {0: ended("0.1", "a"), 1: ended("0.01", "b"), 2: ended("0.1", "a")}
    (found,) = last_settings_differ(tracks, None)
    assert (found.step, found.ranks, found.names, found.lines[1]) == (60, (1,), ("lr",), MADE)


@pytest.mark.parametrize(
    "other",
    [
        ended("0.01", "a"),
        ended("0.1", "b"),
        ended("0.01", "b", moment="end"),
        ended("0.01", "b", looked="end"),
        replace(ended("0.01", "b"), by_optimizer=()),
        replace(ended("0.01", "b"), left=()),
    ],
    ids=["equal weights", "equal rates", "weights later", "rates later", "without steps", "without an end"],
)
def test_settings_of_other_moments_or_without_an_effect_are_no_cause(other: Track) -> None:
    assert not [*last_settings_differ({0: ended("0.1", "a"), 1: other}, None)]

"""How settings that differ between ranks are said."""

from __future__ import annotations

import pytest

from ddpdoctor.analysis.replicas.settings_of_ranks import settings_differ
from ddpdoctor.evidence.audited_steps import StepSeen


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (("0.010000000000000002", "0.1"), ("0.1", "0.01")),
        (("0.30000000000000004", "0.3"), ("0.3", "0.30000000000000004")),
        (("1e-08", "0.00012345678"), ("0.000123457", "1e-08")),
        (("(0.9, 0.999)", "3"), ("3", "(0.9, 0.999)")),
    ],
)
def test_a_setting_has_as_few_digits_as_tell_the_ranks_apart(values: tuple[str, str], said: tuple[str, str]) -> None:
    other, usual = values
    seen = {
        rank: StepSeen(step=4, forwards=5, since=0, weights="", after="", settings={"lr": usual if rank else other})
        for rank in range(3)
    }
    (found,) = settings_differ(seen, 4, None)
    assert tuple(side.says for side in found.sides) == said


def ranks_with(settings: list[dict[str, str]], after: str) -> dict[int, StepSeen]:
    """A step of each rank with its settings, and the weights after it: one letter per rank."""
    return {
        rank: StepSeen(step=0, forwards=1, since=0, weights="w", after=weights, settings=own)
        for rank, (own, weights) in enumerate(zip(settings, after, strict=True))
    }


def test_how_an_update_is_computed_is_no_fault_where_it_gives_the_same_weights() -> None:
    """Rank 2 takes another implementation, with the same weights; rank 1 has Nesterov momentum, and other weights."""
    settings = [
        {"foreach": "None", "nesterov": "False"},
        {"foreach": "None", "nesterov": "True"},
        {"foreach": "False", "nesterov": "False"},
    ]
    (found,) = settings_differ(ranks_with(settings, "aba"), 0, None)
    assert (found.names, found.ranks) == (("nesterov",), (1,))
    first, second = settings_differ(ranks_with(settings, "abc"), 0, None)
    assert (first.names, second.names) == (("nesterov",), ("foreach",))


def test_the_setting_that_tells_ranks_apart_as_their_weights_do_comes_first() -> None:
    settings = [{"eps": "1", "weight_decay": "0"}, {"eps": "1", "weight_decay": "1"}, {"eps": "2", "weight_decay": "0"}]
    found = [one.ranks for one in settings_differ(ranks_with(settings, "aba"), 0, None)]
    assert found == [(1,), (2,)]

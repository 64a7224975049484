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

"""Every regular expression takes linear time on its own worst cases: a hostile log or script costs what its size costs."""

from __future__ import annotations

import re

import pytest

from tests.fuzz.patterns import attacks, patterns, slow_on

SHARES = 4


def test_the_law_finds_patterns_that_are_not_linear() -> None:
    assert slow_on(re.compile(r"\w+foo")) is not None
    assert slow_on(re.compile(r"^\s*x\s*\s*y$")) is not None
    assert slow_on(re.compile(r"\w{1,40}foo")) is None


def test_all_patterns_of_the_package_are_collected() -> None:
    found = patterns()
    assert len(found) > 400
    assert any("DDP418 error" in place for place in found)
    assert any(place.startswith("ddpdoctor.logs.") for place in found)
    assert any(place.startswith("ddpdoctor.ranks.fr_repeats.") for place in found)
    assert sum(1 for pattern in found.values() for _ in attacks(pattern)) > 2000


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("share", range(SHARES))
def test_every_pattern_is_linear(share: int) -> None:
    chosen = [item for number, item in enumerate(sorted(patterns().items())) if number % SHARES == share]
    slow = {place: found for place, pattern in chosen if (found := slow_on(pattern)) is not None}
    assert not slow

"""Logs as people post them: cut, interleaved, prefixed, by many launchers and versions; each is read as its truth says."""

from __future__ import annotations

import pytest

from tests.posted_logs.scoring import COLLECTION, Truth, score, truths

TRUTHS = truths(COLLECTION)


@pytest.mark.parametrize("truth", TRUTHS, ids=lambda truth: truth.name)
def test_a_posted_log_is_read_as_its_truth_says(truth: Truth) -> None:
    found = score(truth, COLLECTION)
    assert (found.grade, found.why) == ("exact", "")


def test_each_log_of_the_collection_has_its_truth() -> None:
    logs = {path.relative_to(COLLECTION).with_suffix("").as_posix() for path in COLLECTION.rglob("*.txt")}
    assert logs == {truth.name for truth in TRUTHS}
    assert len(TRUTHS) >= 100
    assert sum(truth.healthy for truth in TRUTHS) >= 10

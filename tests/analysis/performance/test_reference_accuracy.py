"""The bands of the reference job: measured with five seeds, and shown in its guide as the code has them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ddpdoctor.analysis.performance.reference_accuracy import BANDS, Band, least_accuracy

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "train.md").read_text()


def test_a_band_is_as_wide_as_its_seeds_or_its_test_set_allow() -> None:
    steady = Band(program="p", dataset="d", model="m", epochs=1, test_samples=100, accuracies=(0.5, 0.5, 0.5))
    assert steady.least == pytest.approx(0.5 - 3 * 0.05)
    loose = Band(program="p", dataset="d", model="m", epochs=1, test_samples=10**6, accuracies=(0.4, 0.5, 0.6))
    assert loose.least == pytest.approx(0.5 - 3 * 0.1)


def test_a_run_must_reach_the_least_of_both_programs_and_an_unknown_one_nothing() -> None:
    both = [band for band in BANDS if (band.dataset, band.epochs) == ("digits", 1)]
    assert len(both) == 2
    assert least_accuracy("digits", "digitnet", 1) == min(band.least for band in both)
    assert least_accuracy("digits", "digitnet", 2) is None


def test_the_whole_of_mnist_reaches_what_is_asked_of_it() -> None:
    least = least_accuracy("mnist", "digitnet", 3)
    assert least is not None
    assert least >= 0.988


@pytest.mark.parametrize("band", BANDS, ids=lambda band: f"{band.program} {band.dataset} {band.epochs}")
def test_a_band_comes_from_five_seeds_that_the_guide_shows(band: Band) -> None:
    assert len(band.accuracies) >= 5
    digits = 2 if band.test_samples >= 10_000 else 1
    seeds = ", ".join(f"{100 * accuracy:.{digits}f}" for accuracy in band.accuracies)
    row = next((line for line in GUIDE.splitlines() if f"| {seeds} % |" in line), "")
    assert f"{band.model}, {band.epochs} (`{band.program}`)" in row
    assert re.search(rf"\| {100 * band.least:.1f} % \|$", row)

"""The embedded digits are real ones, and small enough for the wheel."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "reference_train" / "digits"
MNIST = Path(os.environ.get("DDPDOCTOR_TEST_DATA", ROOT.parent / "shared" / "data")) / "MNIST" / "raw"


def idx(path: Path) -> np.ndarray:
    content = gzip.decompress(path.read_bytes())
    shape = np.frombuffer(content, ">u4", count=content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def test_they_fit_into_two_megabytes_with_a_note_of_their_licence() -> None:
    assert sum(path.stat().st_size for path in DIGITS.iterdir()) < 2_000_000
    assert "Attribution-ShareAlike 3.0" in (DIGITS / "README.md").read_text()


@pytest.mark.parametrize(("part", "each"), [("train", 800), ("t10k", 100)])
def test_classes_are_balanced(part: str, each: int) -> None:
    assert np.bincount(idx(DIGITS / f"{part}-labels-idx1-ubyte.gz")).tolist() == [each] * 10


@pytest.mark.skipif(not MNIST.is_dir(), reason=f"no MNIST in {MNIST}")
@pytest.mark.parametrize(("part", "each"), [("train", 800), ("t10k", 100)])
def test_they_are_the_first_of_each_digit_of_mnist(part: str, each: int) -> None:
    labels = idx(MNIST / f"{part}-labels-idx1-ubyte.gz")
    chosen = np.sort(np.concatenate([np.flatnonzero(labels == digit)[:each] for digit in range(10)]))

    assert np.array_equal(idx(DIGITS / f"{part}-labels-idx1-ubyte.gz"), labels[chosen])
    images = idx(MNIST / f"{part}-images-idx3-ubyte.gz")
    assert np.array_equal(idx(DIGITS / f"{part}-images-idx3-ubyte.gz"), images[chosen])
